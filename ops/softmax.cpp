#include "ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/plain.h"
#include "ops/reduce_axes.h"
#include "ops/view.h"

namespace vitrine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Shift {
  /// The largest element of each row, a constant; 0 if it is not finite, because ∞ − ∞ is NaN.
  Tensor by;
  Tensor some;  ///< whether the row has an element greater than −∞
};

/// log Σ eˣ = m + log Σ e^(x − m) for any constant m. With the largest element as m, every
/// exponential is in [0, 1].
Shift shift(const Tensor& x, const Axes& axes) {
  const Tensor largest = detach(max(x, axes, KeepAxes::yes));
  return {where(is_finite(largest), largest, 0.0),
          not_equal(largest, full({}, -kInfinity, x.dtype(), x.device()))};
}

bool is_last_axis(const char* op, const Tensor& x, int64_t axis) {
  check_floating(op, "x", x);
  return check_axis(op, x.shape(), axis) == x.rank() - 1;
}

}  // namespace

// In a row of only −∞ the sum is 0. Before a division or logarithm, whose derivative at 0 would
// make the gradient NaN, the sum is replaced by 1. The result is then replaced by the value that
// the header gives.

Tensor define::softmax(const Tensor& x, int64_t axis) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  const auto [by, some] = shift(z, {axis});
  const Tensor exponentials = exp(z - by);
  const Tensor total = sum(exponentials, {axis}, KeepAxes::yes);
  return cast(exponentials / where(some, total, 1.0), x.dtype());
}

Tensor softmax(const Tensor& x, int64_t axis) {
  if (!is_last_axis("softmax", x, axis)) return move_axis(softmax(move_axis(x, axis, -1)), -1, axis);
  if (x.numel() == 0) return x;
  if (const auto y = through_definition({x}, [&] { return define::softmax(x, axis); })) return *y;
  Tensor y = empty_like(x);
  VITRINE_RUN(softmax, y, packed(x));
  return record("softmax", {x}, y, [y = Saved(y)](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(y.get());
    VITRINE_RUN(softmax_backward, dx, packed(dy), y.get());
    return {dx};
  });
}

void plain::softmax(Tensor& y, const Tensor& x) {
  const int64_t n = x.size(-1);
  for (int64_t row = 0; row < x.numel() / n; ++row) {
    const double* const from = x.data<double>() + row * n;
    double* const to = y.data<double>() + row * n;
    const double largest = *std::max_element(from, from + n);
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += to[i] = std::exp(from[i] - largest);
    for (int64_t i = 0; i < n; ++i) to[i] /= total;
  }
}

void plain::softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  const int64_t n = y.size(-1);
  for (int64_t row = 0; row < y.numel() / n; ++row) {
    const double *const up = dy.data<double>() + row * n, *const out = y.data<double>() + row * n;
    double average = 0;  // of dy, by the weights y
    for (int64_t i = 0; i < n; ++i) average += up[i] * out[i];
    for (int64_t i = 0; i < n; ++i) dx.data<double>()[row * n + i] = out[i] * (up[i] - average);
  }
}

// In the kernels x[at … at + n) is a row. Its total is 0 if all its elements are −∞.

void cpu::softmax(Tensor& y, const Tensor& x) {
  for_each_row("softmax", x, [&](auto type, int64_t, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    const S* const from = x.data<S>() + at;
    S* const to = y.data<S>() + at;
    if constexpr (std::is_same_v<S, AccumulatorOf<S>>) {
      const S largest = vecmath::max(from, n);
      const S total = vecmath::exp_shifted_sum(to, from, std::isfinite(largest) ? largest : 0, n);
      vecmath::scale(to, to, total == 0 ? 0 : 1 / total, n);
    } else {  // the exponentials are not rounded to 16 bits before they are scaled
      const auto [shift, total] = sum_exp(from, n);
      vecmath::exp_shifted_scaled(to, from, shift, total == 0 ? 0 : 1 / total, n);
    }
  });
}

void cpu::softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  for_each_row("softmax_backward", y, [&](auto type, int64_t, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    const S *const up = dy.data<S>() + at, *const out = y.data<S>() + at;
    vecmath::multiply_shifted(dx.data<S>() + at, up, vecmath::dot(up, out, n), out, n);
  });
}

Tensor define::log_softmax(const Tensor& x, int64_t axis) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  const auto [by, some] = shift(z, {axis});
  const Tensor total = sum(exp(z - by), {axis}, KeepAxes::yes);
  return cast(where(some, z - by - log(where(some, total, 1.0)), -kInfinity), x.dtype());
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  if (!is_last_axis("log_softmax", x, axis)) return move_axis(log_softmax(move_axis(x, axis, -1)), -1, axis);
  if (x.numel() == 0) return x;
  if (const auto y = through_definition({x}, [&] { return define::log_softmax(x, axis); })) return *y;
  Tensor y = empty_like(x);
  VITRINE_RUN(log_softmax, y, packed(x));
  return record("log_softmax", {x}, y, [y = Saved(y)](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(y.get());
    VITRINE_RUN(log_softmax_backward, dx, packed(dy), y.get());
    return {dx};
  });
}

void cpu::log_softmax(Tensor& y, const Tensor& x) {
  for_each_row("log_softmax", x, [&](auto type, int64_t, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    const auto [shift, total] = sum_exp(x.data<S>() + at, n);
    subtract_twice(y.data<S>() + at, x.data<S>() + at, shift, total == 0 ? 0 : std::log(total), n);
  });
}

void cpu::log_softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  for_each_row("log_softmax_backward", y, [&](auto type, int64_t, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    const S *const up = dy.data<S>() + at, *const out = y.data<S>() + at;
    if (vecmath::max(out, n) == -std::numeric_limits<AccumulatorOf<S>>::infinity()) {
      std::fill_n(dx.data<S>() + at, n, S(0.0f));
    } else {
      subtract_scaled_exp(dx.data<S>() + at, up, vecmath::sum(up, n), out, n);
    }
  });
}

Tensor define::log_sum_exp(const Tensor& x, const Axes& axes, KeepAxes keep) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  const auto [by, some] = shift(z, axes);
  const Tensor total = sum(exp(z - by), axes, KeepAxes::yes);
  const Tensor lse = cast(where(some, by + log(where(some, total, 1.0)), -kInfinity), x.dtype());
  return keep == KeepAxes::yes ? lse : squeeze(lse, axes);
}

namespace {

/// x with `axes` (sorted) merged into one, the last: [.., n].
Tensor merge_last(const Tensor& x, const std::vector<int>& axes, int64_t n) {
  if (axes.size() == 1 && axes[0] == x.rank() - 1) return x;
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!std::binary_search(axes.begin(), axes.end(), axis)) order.push_back(axis);
  order.insert(order.end(), axes.begin(), axes.end());
  Shape shape = reduced_shape(x.shape(), axes, KeepAxes::no);
  shape.push_back(n);
  return reshape(permute(x, order), shape);
}

Tensor log_sum_exp_rows(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::log_sum_exp(x, {-1}, KeepAxes::no); }))
    return *y;
  Shape rows = x.shape();
  rows.erase(x.rank() - 1);
  Tensor y = empty(rows, x.dtype(), x.device());
  Tensor shift = empty(rows, accumulation_dtype(x.dtype()), x.device()), total = empty_like(shift);
  VITRINE_RUN(log_sum_exp, y, shift, total, packed(x));
  return record(
      "log_sum_exp", {x}, y,
      [x = Saved(packed(x)), shift = Saved(shift), total = Saved(total)](const Tensor& dy) -> Grads {
        Tensor dx = empty_like(x.get());
        VITRINE_RUN(log_sum_exp_backward, dx, packed(dy), x.get(), shift.get(), total.get());
        return {dx};
      });
}

}  // namespace

Tensor log_sum_exp(const Tensor& x, const Axes& axes, KeepAxes keep) {
  check_floating("log_sum_exp", "x", x);
  const std::vector<int> sorted = check_axes("log_sum_exp", x.shape(), axes);
  const int64_t n = reduced_count("log_sum_exp", x.shape(), sorted);
  const Tensor y = log_sum_exp_rows(merge_last(x, sorted, n));
  return keep == KeepAxes::yes ? reshape(y, reduced_shape(x.shape(), sorted, keep)) : y;
}

void cpu::log_sum_exp(Tensor& y, Tensor& shift, Tensor& total, const Tensor& x) {
  for_each_row("log_sum_exp", x, [&](auto type, int64_t row, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    const auto result = sum_exp(x.data<S>() + at, n);
    shift.data<AccumulatorOf<S>>()[row] = result.shift;
    total.data<AccumulatorOf<S>>()[row] = result.total;
    y.data<S>()[row] = S(result.log());
  });
}

void cpu::log_sum_exp_backward(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& shift,
                               const Tensor& total) {
  for_each_row("log_sum_exp_backward", x, [&](auto type, int64_t row, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const T sum = total.data<T>()[row], up = static_cast<T>(dy.data<S>()[row]);
    vecmath::exp_shifted_scaled(dx.data<S>() + at, x.data<S>() + at, shift.data<T>()[row],
                                sum == 0 ? 0 : up / sum, n);
  });
}

}  // namespace vitrine
