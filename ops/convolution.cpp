#include "ops/convolution.h"

#include <algorithm>

#include "core/flops.h"
#include "core/matmul_math.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/matmul.h"
#include "ops/operands.h"
#include "ops/plain.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

void check_operands(const char* op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t groups) {
  check_floating(op, "x", x);
  check_floating(op, "weight", weight);
  check(x.rank() == 2 + axes, "{}: x is {}, wanted {}", op, x.shape(),
        axes == 1 ? "[N, C, T]" : "[N, C, H, W]");
  check(weight.rank() == 2 + axes, "{}: weight is {}, wanted {}", op, weight.shape(),
        axes == 1 ? "[O, C/groups, K]" : "[O, C/groups, K, K]");
  const int64_t channels = x.size(1), outputs = weight.size(0);
  check(groups >= 1 && channels % groups == 0 && outputs % groups == 0,
        "{}: {} channels and {} outputs do not divide into {} groups", op, channels, outputs, groups);
  check(weight.size(1) * groups == channels,
        "{}: x is {} and weight is {}: wanted weights of {} channels for {} groups", op, x.shape(),
        weight.shape(), channels / groups, groups);
  if (!bias.defined()) return;
  check_floating(op, "bias", bias);
  check(bias.shape() == Shape{outputs}, "{}: bias is {}, wanted [{}]", op, bias.shape(), outputs);
}

/// The operands in one dtype, with the bias in its wide dtype, and the windows.
struct Convolution {
  Tensor x, weight, bias;
  int64_t groups;
  DType dtype, wide;
  Windows windows;

  Convolution(const Tensor& x0, const Tensor& weight0, const Tensor& bias0, const Conv2dOptions& o)
      : groups(o.groups) {
    check_operands("conv2d", 2, x0, weight0, bias0, o.groups);
    dtype = promote(x0.dtype(), weight0.dtype()), wide = accumulation_dtype(dtype);
    x = cast(x0, dtype), weight = cast(weight0, dtype);
    if (bias0.defined()) bias = cast(bias0, wide);
    windows.rows = window_axis("conv2d", "rows", x.size(2), weight.size(2), o.stride.rows, o.padding.rows,
                               o.dilation.rows);
    windows.columns = window_axis("conv2d", "columns", x.size(3), weight.size(3), o.stride.columns,
                                  o.padding.columns, o.dilation.columns);
  }

  Shape result() const { return {x.size(0), weight.size(0), windows.rows.count, windows.columns.count}; }
};

/// Padding that the windows of an axis reach after its end.
int64_t padding_after(const WindowAxis& a) { return std::max<int64_t>(0, a.covered() - a.before - a.size); }

/// What tap `tap` of all windows of an axis sees: a view.
Tensor seen(const Tensor& padded, int64_t axis, const WindowAxis& a, int64_t tap) {
  const int64_t begin = tap * a.dilation;
  return slice(padded, axis, begin, begin + a.count * a.stride, a.stride);
}

}  // namespace

Tensor define::conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  const Convolution c(x, weight, bias, o);
  const MatmulMathScope exact(MatmulMath::float32);
  const auto& [rows, columns] = c.windows;
  const int64_t outputs = weight.size(0), groups = c.groups;
  const Tensor padded = pad(cast(c.x, c.wide), {0, 0, rows.before, columns.before},
                            {0, 0, padding_after(rows), padding_after(columns)});
  Tensor y;
  for (int64_t i = 0; i < rows.kernel; ++i)
    for (int64_t j = 0; j < columns.kernel; ++j) {
      const Tensor image = seen(seen(padded, 2, rows, i), 3, columns, j);
      const Tensor tap = cast(select(select(c.weight, 3, j), 2, i), c.wide);
      const Tensor part = matmul(reshape(tap, {groups, outputs / groups, tap.size(1)}),
                                 reshape(image, {x.size(0), groups, tap.size(1), c.windows.count()}));
      y = y.defined() ? y + part : part;
    }
  y = reshape(y, c.result());
  return cast(bias.defined() ? y + reshape(c.bias, {outputs, 1, 1}) : y, c.dtype);
}

namespace {

/// Each element of y is a product over its window. Either gradient has the same products.
void count_products(const char* op, const Tensor& y, const Tensor& weight) {
  const double window = weight.numel() == 0 ? 0 : static_cast<double>(weight.numel() / weight.size(0));
  count_flops(op, 2.0 * static_cast<double>(y.numel()) * window);
}

}  // namespace

Tensor conv2d(const Tensor& x0, const Tensor& weight0, const Tensor& bias0, const Conv2dOptions& o) {
  const Convolution c(x0, weight0, bias0, o);
  if (const auto y = through_definition({c.x, c.weight, c.bias},
                                        [&] { return define::conv2d(c.x, c.weight, c.bias, o); }))
    return *y;
  const Tensor x = packed(c.x), weight = packed(c.weight), bias = c.bias.defined() ? packed(c.bias) : c.bias;
  Tensor y = empty(c.result(), c.dtype, x.device());
  count_products("convolution", y, weight);
  VITRINE_RUN(convolution, y, x, weight, bias, c.windows);
  return record("conv2d", {c.x, c.weight, c.bias}, y,
                [x = Saved(x), weight = Saved(weight), windows = c.windows, dtype = c.dtype,
                 wide = c.wide](const Backward& b) -> Grads {
                  const Tensor dy = packed(b.dy());
                  Grads grads(3);
                  if (b.needs(0)) {
                    Tensor dx = empty(x->shape(), wide, dy.device());
                    count_products("convolution_backward_x", dy, weight);
                    VITRINE_RUN(convolution_backward_x, dx, dy, weight, windows);
                    grads[0] = cast(dx, dtype);
                  }
                  if (b.needs(1)) {
                    Tensor dweight = empty(weight->shape(), wide, dy.device());
                    count_products("convolution_backward_weight", dy, weight);
                    VITRINE_RUN(convolution_backward_weight, dweight, dy, x, windows);
                    grads[1] = cast(dweight, dtype);
                  }
                  if (b.needs(2)) grads[2] = sum(cast(dy, wide), {0, 2, 3});
                  return grads;
                });
}

void plain::convolution(Tensor& y, const Tensor& x, const Tensor& weight, const Windows& w) {
  const int64_t channels = x.size(1), outputs = y.size(1), group = weight.size(1);
  const double *xs = x.data<double>(), *weights = weight.data<double>();
  double* out = y.data<double>();
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t row = 0; row < w.rows.count; ++row)
        for (int64_t column = 0; column < w.columns.count; ++column, ++out) {
          const int64_t first = o / (outputs / (channels / group)) * group;  // channel of the group
          *out = 0;
          for (int64_t c = 0; c < group; ++c)
            for (int64_t i = 0; i < w.rows.kernel; ++i)
              for (int64_t j = 0; j < w.columns.kernel; ++j) {
                const int64_t h = w.rows.element(row, i), v = w.columns.element(column, j);
                if (!w.rows.holds(h) || !w.columns.holds(v)) continue;
                *out += weights[((o * group + c) * w.rows.kernel + i) * w.columns.kernel + j] *
                        xs[((n * channels + first + c) * w.rows.size + h) * w.columns.size + v];
              }
        }
}

// -- Sequences are images of one row.

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  check_operands("conv1d", 1, x, weight, bias, o.groups);
  window_axis("conv1d", "positions", x.size(2), weight.size(2), o.stride, o.padding, o.dilation);
  const Conv2dOptions options{
      .stride = {1, o.stride}, .padding = {0, o.padding}, .dilation = {1, o.dilation}, .groups = o.groups};
  return squeeze(conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias, options), {2});
}

namespace {

void check_sequence(const char* op, const Tensor& x, int64_t kernel, const Tensor& state) {
  check(x.rank() == 3, "{}: x is {}, wanted [B, T, C]", op, x.shape());
  check(kernel >= 1, "{}: the kernel has {} taps, wanted at least 1", op, kernel);
  const Shape before = {x.size(0), kernel - 1, x.size(2)};
  check(!state.defined() || state.shape() == before, "{}: state is {}, wanted {}", op,
        state.defined() ? state.shape() : before, before);
}

}  // namespace

Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& state) {
  check(weight.rank() == 2 && x.rank() == 3 && weight.size(0) == x.size(2),
        "causal_conv1d: x is {} and weight is {}, wanted [B, T, C] and [C, K]", x.shape(), weight.shape());
  const int64_t kernel = weight.size(1);
  check_sequence("causal_conv1d", x, kernel, state);
  if (x.size(1) == 0) return cast(x, promote(x.dtype(), weight.dtype()));
  const Conv1dOptions options{.padding = {state.defined() ? 0 : kernel - 1, 0}, .groups = x.size(2)};
  const Tensor all = state.defined() ? concat({cast(state, x.dtype()), x}, 1) : x;
  return transpose(conv1d(transpose(all), unsqueeze(weight, 1), bias, options));
}

Tensor causal_conv1d_state(const Tensor& x, int64_t kernel, const Tensor& state) {
  check_sequence("causal_conv1d_state", x, kernel, state);
  const int64_t time = x.size(1), kept = kernel - 1;
  if (time >= kept) return slice(x, 1, time - kept, time);
  const Tensor before =
      state.defined() ? cast(state, x.dtype()) : zeros({x.size(0), kept, x.size(2)}, x.dtype(), x.device());
  return concat({slice(before, 1, time, kept), x}, 1);
}

}  // namespace vitrine
