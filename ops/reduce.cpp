// Sums, and reductions built from sums. Maxima and truth values are in ops/extreme.cpp, running
// sums in ops/cumsum.cpp.
#include "ops/reduce.h"

#include <bit>
#include <cfloat>
#include <cmath>

#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/reduce_axes.h"

namespace vitrine {
namespace {

/// Σ x over sorted axes, in `dtype`. The sum of 16-bit floats in float32 is not rounded back, so
/// that a mean rounds once and does not overflow.
Tensor sum_as(const Tensor& x, const std::vector<int>& axes, KeepAxes keep, DType dtype) {
  const DType total = is_floating(x.dtype()) ? accumulation_dtype(x.dtype()) : DType::int64;
  Tensor kept =
      reduce_axes(x, axes, total, total, [](Tensor& y, const Tensor& part) { VITRINE_RUN(sum, y, part); });
  if (dtype != total) kept = copy_as(kept, dtype);
  const Shape shape = reduced_shape(x.shape(), axes, keep);
  const Tensor y = kept.alias(shape, contiguous_strides(shape));
  return record("sum", {x}, y,
                [from = x.shape(), kept = kept.shape(), dtype = x.dtype()](const Tensor& dy) -> Grads {
                  return {expand(reshape(cast(dy, dtype), kept), from)};
                });
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return sum_as(x, check_axes("sum", x.shape(), axes), keep,
                is_floating(x.dtype()) ? x.dtype() : DType::int64);
}

namespace cpu {
namespace {

struct Sum {
  template <class S>
  using Total = std::conditional_t<is_row_type<S> || std::is_same_v<S, Dual>, AccumulatorOf<S>, int64_t>;
  /// Integers wrap around, as in NumPy.
  static Dual plus(const Dual& x, const Dual& y) { return x + y; }
  static int64_t plus(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  }
  template <class S>
  static Total<S> row(const S* x, int64_t n) {
    if constexpr (is_row_type<S>) {
      return vecmath::sum(x, static_cast<size_t>(n));
    } else {
      Total<S> total(0);
      for (int64_t i = 0; i < n; ++i) total = plus(total, x[i]);
      return total;
    }
  }
  template <class S>
  static void rows(Total<S>* totals, const S* x, int64_t stride, int64_t rows, int64_t n) {
    std::fill_n(totals, n, Total<S>(0));
    if constexpr (is_row_type<S>) {
      add_rows(totals, x, stride, rows, static_cast<size_t>(n));
    } else {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < n; ++c) totals[c] = plus(totals[c], x[r * stride + c]);
    }
  }
};

}  // namespace
}  // namespace cpu

void cpu::sum(Tensor& y, const Tensor& x) {
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    reduce<Sum>(y.data<Sum::Total<S>>(), static_cast<const S*>(x.data<S>()), x.size(0), x.size(1), x.size(2));
  });
}

Tensor mean(const Tensor& x, const Axes& axes, KeepAxes keep) {
  check_floating("mean", "x", x);
  const auto sorted = check_axes("mean", x.shape(), axes);
  const auto count = static_cast<double>(reduced_count("mean", x.shape(), sorted));
  return cast(sum_as(x, sorted, keep, accumulation_dtype(x.dtype())) / count, x.dtype());
}

Tensor prod(const Tensor& x, const Axes& axes, KeepAxes keep) {
  const auto sorted = check_axes("prod", x.shape(), axes);
  // The reduced axes become the last one, which is then folded in halves. The derivative of a
  // product of products needs no division, so zeros are no special case.
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!std::binary_search(sorted.begin(), sorted.end(), axis)) order.push_back(axis);
  order.insert(order.end(), sorted.begin(), sorted.end());
  Shape shape = reduced_shape(x.shape(), sorted, KeepAxes::no);
  int64_t n = 1;
  for (int axis : sorted) n *= x.size(axis);
  shape.push_back(n);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::int64;
  Tensor y = reshape(permute(cast(x, accumulation_dtype(dtype)), order), shape);
  for (; n > 1; n = y.size(-1)) {
    const Tensor halves = slice(y, -1, 0, n / 2) * slice(y, -1, n / 2, n / 2 * 2);
    y = n % 2 == 0 ? halves : concat({halves, slice(y, -1, n - 1)}, -1);
  }
  shape = reduced_shape(x.shape(), sorted, keep);
  return n == 0 ? ones(shape, dtype, x.device()) : reshape(cast(y, dtype), shape);
}

namespace {

/// 2^exponent.
double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

/// The largest |x| over axes that have elements. It is a constant; the axes are kept.
Tensor largest_of(const Tensor& x, const Axes& axes) {
  const Tape::Pause pause;
  return max(abs(x), axes, KeepAxes::yes);
}

/// (x − mean)·factor over axes in the wide dtype, and the divisor of its squares.
struct Deviations {
  Tensor from_mean, factor;
  double divisor;
};

/// Over axes with `count` elements per mean. If the sum could overflow, x is first divided by a
/// power of two that is at least count, so that the gradient does not overflow either. If a
/// difference could, the factor is 1/2. Other results keep their bits.
Deviations centered(const Tensor& x, const Axes& axes, int64_t count, double divisor) {
  const int end = x.dtype() == DType::float32 ? 128 : 1024;
  const auto power = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(count)));
  const auto number = [&](double value) { return full({}, value, x.dtype(), x.device()); };
  const Tensor largest = largest_of(x, axes);
  const Tensor share =
      where(greater(largest, number(2 * (power_of_two(end - 1) / power))), number(1 / power), 1.0);
  const Tensor factor = where(greater(largest, number(power_of_two(end - 2))), number(0.5), 1.0);
  const Tensor mean = sum(x * share, axes, KeepAxes::yes) / (share * static_cast<double>(count));
  return {x * factor - mean * factor, factor, divisor};
}

Deviations deviations(const char* op, const Tensor& x, const Axes& axes, int64_t correction) {
  check_floating(op, "x", x);
  const auto sorted = check_axes(op, x.shape(), axes);
  const int64_t count = reduced_count(op, x.shape(), sorted);
  check(correction >= 0 && correction < count,
        "{}: the correction is {}, wanted 0 to {}, as {} elements of {} fall into one variance", op,
        correction, count - 1, count, describe(x));
  const DType wide = accumulation_dtype(x.dtype());
  if (x.numel() == 0) return {cast(x, wide), sum(ones_like(cast(x, wide)), axes, KeepAxes::yes), 1};
  return centered(cast(x, wide), axes, count, static_cast<double>(count - correction));
}

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, int64_t correction, KeepAxes keep) {
  const auto [from_mean, factor, divisor] = deviations("var", x, axes, correction);
  return cast(sum(square(from_mean / factor), axes, keep) / divisor, x.dtype());
}

Tensor std(const Tensor& x, const Axes& axes, int64_t correction, KeepAxes keep) {
  const auto [from_mean, factor, divisor] = deviations("std", x, axes, correction);
  const Tensor length = norm(from_mean, 2, axes, keep);
  return cast(length / std::sqrt(divisor) / reshape(factor, length.shape()), x.dtype());
}

namespace {

/// √x with derivative 0 at 0, where the derivative of sqrt is infinite. In a sum of squares that is
/// 0, the derivative 0 of the square is the right one.
Tensor sqrt_of_squares(const Tensor& x) {
  // True for NaN, so NaN is kept.
  const Tensor positive = not_equal(x, zeros({}, x.dtype(), x.device()));
  return where(positive, sqrt(where(positive, x, 1.0)), 0.0);
}

/// t^p and s^(1/p) have infinite or undefined derivatives at 0. There the argument is replaced by 1
/// and the result by 0.
Tensor power_of_sum(const Tensor& t, double exponent) {
  // True for NaN, so NaN is kept.
  const Tensor positive = not_equal(t, zeros({}, t.dtype(), t.device()));
  return where(positive, pow(where(positive, t, 1.0), exponent), 0.0);
}

/// The divisor of x that keeps powers of its elements from overflowing or underflowing. For squares
/// it is a power of two, which is 1 unless the largest number is far from 1, so that ordinary
/// results keep their bits. Otherwise it is the largest number.
Tensor norm_scale(const Tensor& x, double p, const Axes& axes) {
  const Tensor largest = largest_of(x, axes);
  const auto number = [&](double value) { return full({}, value, x.dtype(), x.device()); };
  if (p != 2) return where(logical_and(is_finite(largest), greater(largest, number(0))), largest, number(1));
  const int far = x.dtype() == DType::float32 ? 50 : 400;
  return where(greater(largest, number(power_of_two(far))), number(power_of_two(2 * far)),
               where(less(largest, number(power_of_two(-far))), number(power_of_two(-2 * far)), number(1)));
}

/// The norm for p other than 1 and infinity, for an x of the wide dtype. With u = x/‖x‖, whose
/// elements are at most 1, the gradient is sign(u)|u|^(p−1). Neither the gradient nor its
/// intermediate values overflow.
Tensor scaled_norm(const Tensor& x, double p, const Axes& axes, KeepAxes keep) {
  Tensor y;
  {
    const Tape::Pause pause;
    // For p < 1 the powers of small numbers count next to large ones, where x/scale is 0.
    const Tensor scale = norm_scale(x, p, axes), z = p < 1 ? x : x / scale;
    Tensor powers = p == 2 ? square(z) : power_of_sum(abs(z), p);
    if (p < 1) powers = powers / pow(scale, p);
    const Tensor kept = sum(powers, axes, KeepAxes::yes);
    y = scale * (p == 2 ? sqrt_of_squares(kept) : power_of_sum(kept, 1 / p));
    const auto sorted = check_axes("norm", x.shape(), axes);
    y = reshape(y, reduced_shape(x.shape(), sorted, keep));
  }
  return record("norm", {x}, y, [x = Saved(x), p, axes](const Tensor& dy) -> Grads {
    const Tensor n = norm(x, p, axes, KeepAxes::yes), up = reshape(dy, n.shape());
    const Tensor positive = not_equal(n, zeros({}, n.dtype(), n.device())), u = x / where(positive, n, 1.0);
    if (p == 2) return {up * u};
    Tensor size = power_of_sum(abs(u), p - 1);
    if (p < 2) {  // where x/‖x‖ underflows, but not its power
      const double least = x->dtype() == DType::float32 ? FLT_MIN : DBL_MIN;
      const Tensor lost = less(abs(u), full_like(u, least));
      // Of 1 elsewhere, so that derivatives of what is not chosen are finite
      const Tensor small = where(lost, abs(x.get()), 1.0);
      size = where(lost, power_of_sum(small, p - 1) / pow(where(positive, n, 1.0), p - 1), size);
    }
    return {up * sign(x.get()) * size};
  });
}

}  // namespace

Tensor norm(const Tensor& x, double p, const Axes& axes, KeepAxes keep) {
  check_floating("norm", "x", x);
  check(p > 0, "norm: p is {}, wanted a positive number or infinity", p);
  const auto reduced = check_axes("norm", x.shape(), axes);
  if (std::isinf(p)) reduced_count("norm", x.shape(), reduced);  // the largest element must exist
  const Tensor wide_x = cast(x, accumulation_dtype(x.dtype()));
  if (std::isinf(p)) return cast(max(abs(wide_x), axes, keep), x.dtype());
  if (p == 1 || x.numel() == 0) return cast(sum(abs(wide_x), axes, keep), x.dtype());
  return cast(scaled_norm(wide_x, p, axes, keep), x.dtype());
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int added = x.rank() - shape.rank();
  check(added >= 0, "sum_to: x has the shape {}, which {} does not broadcast to", x.shape(), shape);
  Axes axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < added || shape[axis - added] == 1) {
      if (x.size(axis) != 1) axes.push_back(axis);
    } else {
      check(shape[axis - added] == x.size(axis), "sum_to: x has the shape {}, which {} does not broadcast to",
            x.shape(), shape);
    }
  }
  return reshape(axes.empty() ? x : sum(x, axes, KeepAxes::yes), shape);
}

}  // namespace vitrine
