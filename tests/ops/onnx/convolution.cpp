// Convolutions and pooling.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/join.h"
#include "ops/pooling.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

using Integers = std::vector<int64_t>;

/// The windows of an operator on images, from its attributes.
struct Attributes {
  Integers kernel, strides, dilations, before, after;

  /// `kernel`: the sizes that the weights have; an attribute, if there is one, has to agree. ONNX
  /// lists the padding before all axes, then the padding after them.
  Attributes(Case c, const Integers& sizes) : kernel(c.attribute("kernel_shape", sizes)) {
    check(sizes.empty() || kernel == sizes, "the kernel_shape of {} differs from its weights", c.name);
    const size_t axes = kernel.size();
    strides = c.attribute("strides", Integers(axes, 1));
    dilations = c.attribute("dilations", Integers(axes, 1));
    const auto pads = c.attribute("pads", Integers(2 * axes, 0));
    before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
    after.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  }

  int64_t extent(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }

  /// auto_pad: of `total` elements of padding, the odd one is at the end (UPPER) or at the begin.
  void pad_same(Case c, size_t axis, int64_t total) {
    const auto mode = c.attribute("auto_pad", std::string("NOTSET"));
    if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return;
    total = std::max<int64_t>(0, total);
    before[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    after[axis] = total - before[axis];
  }

  /// With auto_pad there is a window for each `stride` elements of x.
  void pad_windows(Case c) {
    for (size_t i = 0; i < kernel.size(); ++i) {
      const int64_t size = c.in(0).size(static_cast<int64_t>(i) + 2);
      pad_same(c, i, ((size + strides[i] - 1) / strides[i] - 1) * strides[i] + extent(i) - size);
    }
  }

  PerAxis<Padding> padding() const { return {Padding(before[0], after[0]), Padding(before[1], after[1])}; }
};

PerAxis<int64_t> pair(const Integers& x) { return {x[0], x[1]}; }

Integers kernel_of(const Tensor& weight) {
  const Shape& s = weight.shape();
  return {s.begin() + 2, s.end()};
}

Outputs conv(Case c) {
  Attributes a(c, kernel_of(c.in(1)));
  a.pad_windows(c);
  return {conv2d(c.in(0), c.in(1), c.in(2),
                 {.stride = pair(a.strides),
                  .padding = a.padding(),
                  .dilation = pair(a.dilations),
                  .groups = c.attribute("group", int64_t{1})})};
}

/// Zeros between neighbours along an axis, so that their distance becomes `distance`.
Tensor spread(const Tensor& x, int64_t axis, int64_t distance) {
  Integers none(static_cast<size_t>(x.rank()) + 1, 0), zeros = none;
  zeros[static_cast<size_t>(axis) + 1] = distance - 1;
  const Tensor gaps = flatten(pad(unsqueeze(x, axis + 1), none, zeros), axis, axis + 1);
  return slice(gaps, axis, 0, gaps.size(axis) - (distance - 1));
}

/// The gradient of a convolution, written as a convolution: of x with zeros between its elements,
/// by the flipped kernel [in, out, …].
Outputs conv_transpose(Case c) {
  const Tensor weight = c.in(1);
  Attributes a(c, kernel_of(weight));
  const auto sizes = c.attribute("output_shape", Integers());
  Tensor x = c.in(0);
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t whole = (x.size(axis) - 1) * a.strides[i] + a.extent(i);
    if (sizes.empty()) {
      a.pad_same(c, i, whole - x.size(axis) * a.strides[i]);
    } else {
      const int64_t total = whole - sizes[i];  // of padding; if less than 0, zeros are added
      a.after[i] = (total - (total < 0 ? 1 : 0)) / 2, a.before[i] = total - a.after[i];
    }
    x = spread(x, axis, a.strides[i]);
    // What is more than the kernel's reach is padding; what is less is cut off.
    const int64_t reach = a.extent(i) - 1;
    x = slice(x, axis, std::max<int64_t>(0, a.before[i] - reach),
              x.size(axis) - std::max<int64_t>(0, a.after[i] - reach));
    a.before[i] = std::max<int64_t>(0, reach - a.before[i]);
    a.after[i] = std::max<int64_t>(0, reach - a.after[i]);
  }
  return {conv2d(x, flip(transpose(weight, 0, 1), {2, 3}), c.in(2),
                 {.padding = a.padding(), .dilation = pair(a.dilations)})};
}

/// A sequence as an image of one row.
Tensor pool(Case c, const Tensor& x, decltype(max_pool2d)& f) {
  Attributes a(c, {});
  a.pad_windows(c);
  Pool2dOptions o;
  o.last = c.attribute("ceil_mode", 0) != 0 ? LastWindow::partial : LastWindow::whole;
  o.count_padding = c.attribute("count_include_pad", 0) != 0;
  const bool is_image = a.kernel.size() == 2;
  if (is_image) {
    o.stride = pair(a.strides), o.padding = a.padding(), o.dilation = pair(a.dilations);
    return f(x, pair(a.kernel), o);
  }
  o.stride = {1, a.strides[0]}, o.dilation = {1, a.dilations[0]};
  o.padding = {0, Padding(a.before[0], a.after[0])};
  return squeeze(f(unsqueeze(x, 2), {1, a.kernel[0]}, o), {2});
}

/// Whole numbers of 8 bits are exact in float32.
Outputs max_pool(Case c) {
  const Tensor x = c.in(0);
  return {is_floating(x.dtype()) ? pool(c, x, max_pool2d)
                                 : cast(pool(c, cast(x, DType::float32), max_pool2d), x.dtype())};
}

/// Channels come before positions in ONNX.
Outputs causal_conv_with_state(Case c) {
  const Tensor x = transpose(c.in(0)), weight = squeeze(c.in(1), {1});
  const Tensor state = c.has(3) ? transpose(c.in(3)) : Tensor();
  const auto activation = c.attribute("activation", std::string("none"));
  check(activation == "none" || activation == "silu" || activation == "swish",
        "the activation {} is not known", activation);
  const Tensor y = causal_conv1d(x, weight, c.in(2), state);
  return {transpose(activation == "none" ? y : silu(y)),
          transpose(causal_conv1d_state(x, weight.size(1), state))};
}

}  // namespace

const OnnxAdapters kConvolutionAdapters = {
    {"AveragePool", [](Case c) -> Outputs { return {pool(c, c.in(0), avg_pool2d)}; }},
    {"CausalConvWithState", causal_conv_with_state},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"MaxPool", max_pool},
};

}  // namespace vitrine::test
