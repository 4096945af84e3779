// Normalizations. Those for which the library has no op are composed of layer_norm, means and
// variances.
#include "ops/norm.h"
#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

double epsilon_of(Case c) { return c.attribute("epsilon", 1e-5); }

/// The normalized axes: all from `axis` on.
std::vector<int> normalized_axes(Case c, const Tensor& x) {
  std::vector<int> axes;
  for (int axis = check_axis("norm", x.shape(), c.attribute("axis", int64_t{-1})); axis < x.rank(); ++axis)
    axes.push_back(axis);
  return axes;
}

/// A weight or bias over all these axes. The number of its axes determines over which axes to
/// normalize.
Tensor spread(const Tensor& w, const Tensor& x, const std::vector<int>& axes) {
  Shape shape;
  for (int axis : axes) shape.push_back(x.size(axis));
  return w.defined() ? expand(w, shape) : w;
}

/// The statistics over the same axes, which are kept with size 1.
Outputs layer_norm_case(Case c) {
  const Tensor x = c.in(0);
  const std::vector<int> axes = normalized_axes(c, x);
  const Axes over(axes.begin(), axes.end());
  return {layer_norm(x, spread(c.in(1), x, axes), spread(c.in(2), x, axes), epsilon_of(c)),
          mean(x, over, KeepAxes::yes), rsqrt(var(x, over, 0, KeepAxes::yes) + epsilon_of(c))};
}

Outputs rms_norm_case(Case c) {
  const Tensor x = c.in(0);
  return {rms_norm(x, spread(c.in(1), x, normalized_axes(c, x)), epsilon_of(c))};
}

/// [C] as [C, 1, …], to broadcast along the axes after the channels of x [B, C, …].
Tensor per_channel(const Tensor& v, const Tensor& x) {
  Shape shape = Shape::filled(x.rank() - 1, 1);
  shape[0] = v.numel();
  return reshape(v, shape);
}

/// Each row's channels in groups, each of which is normalized separately. Before opset 21 scale and
/// bias are given per group.
Tensor normalize_groups(Case c, int64_t groups) {
  const Tensor x = c.in(0);
  const Tensor grouped =
      reshape(layer_norm(reshape(x, {x.size(0), groups, -1}), {}, {}, epsilon_of(c)), x.shape());
  const auto spread = [&](const Tensor& v) { return per_channel(repeat(v, x.size(1) / v.numel(), 0), x); };
  return grouped * spread(c.in(1)) + spread(c.in(2));
}

/// In training, normalizes by the statistics of the batch, which are also blended into the running
/// statistics.
Outputs batch_norm(Case c) {
  const Tensor x = c.in(0);
  const bool training = c.attribute("training_mode", 0) != 0;
  Axes axes = {0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  const Tensor m = training ? mean(x, axes) : c.in(3), v = training ? var(x, axes) : c.in(4);
  const Tensor y =
      (x - per_channel(m, x)) * per_channel(rsqrt(v + epsilon_of(c)) * c.in(1), x) + per_channel(c.in(2), x);
  const double momentum = c.attribute("momentum", 0.9);
  return {y, c.in(3) * momentum + m * (1 - momentum), c.in(4) * momentum + v * (1 - momentum)};
}

/// (x − mean)/(√var + 1e-9) over the axes of the attribute.
Outputs mean_variance_normalize(Case c) {
  const Tensor x = c.in(0);
  const Axes axes = c.attribute("axes", Axes{0, 2, 3});
  return {(x - mean(x, axes, KeepAxes::yes)) / (std(x, axes, 0, KeepAxes::yes) + 1e-9)};
}

Outputs lp_normalize(Case c) {
  const int64_t axis = c.attribute("axis", int64_t{-1});
  const int p = c.attribute("p", 2);
  check(p == 1 || p == 2, "LpNormalization: p is {}", p);
  if (p == 2) return {move_axis(l2_normalize(move_axis(c.in(0), axis, -1)), -1, axis)};
  const Tensor size = norm(c.in(0), 1, {axis}, KeepAxes::yes);
  return {c.in(0) / where(equal(size, zeros_like(size)), ones_like(size), size)};
}

}  // namespace

const OnnxAdapters kNormAdapters = {
    {"BatchNormalization", batch_norm},
    {"GroupNormalization",
     [](Case c) -> Outputs { return {normalize_groups(c, c.attribute("num_groups", int64_t{1}))}; }},
    {"InstanceNormalization", [](Case c) -> Outputs { return {normalize_groups(c, c.in(0).size(1))}; }},
    {"LayerNormalization", layer_norm_case},
    {"LpNormalization", lp_normalize},
    {"MeanVarianceNormalization", mean_variance_normalize},
    {"RMSNormalization", rms_norm_case},
};

}  // namespace vitrine::test
