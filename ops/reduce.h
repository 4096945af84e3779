// Reductions over any axes; without axes, over all of them. KeepAxes::yes keeps reduced axes with
// size 1. bfloat16 and float16 are summed in float32 and rounded once. mean, var, std and norm
// require a floating dtype. Over no elements, sum is 0, prod is 1, any is false and all is true;
// the other reductions are errors.
#pragma once

#include <concepts>

#include "ops/view.h"

namespace vitrine {

/// Whether reduced axes stay, with size 1.
enum class KeepAxes : bool { no, yes };

/// Σ x. The sum of bool and integers is int64, and wraps around.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Σ x/n, where n is the number of elements.
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Π x. The product of bool and integers is int64. The gradient is also right where elements are
/// zero.
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest (smallest) element; NaN if any element is. Equal extremes share the gradient evenly.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor min(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Σ(x − mean)²/(n − correction); correction 0 gives the biased variance, 1 the unbiased one; std
/// is the square root. The std of numbers whose squares overflow or underflow is right; their
/// variance overflows or underflows.
Tensor var(const Tensor& x, const Axes& axes = {}, int64_t correction = 0, KeepAxes keep = KeepAxes::no);
Tensor std(const Tensor& x, const Axes& axes = {}, int64_t correction = 0, KeepAxes keep = KeepAxes::no);
/// (Σ|x|^p)^(1/p) for p = 1, 2, another positive number, or infinity. The gradient at x = 0 is 0. x
/// is divided by a scale before powers are computed, so that neither the powers nor the gradient
/// overflow or underflow unless the norm does.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Running sums along an axis, in int64 for bool and integers. `exclusive` omits the element
/// itself; `reverse` sums from the end.
Tensor cumsum(const Tensor& x, int64_t axis, bool exclusive = false, bool reverse = false);

/// int64 index of the first largest (smallest) element along an axis, or along several axes in
/// row-major order; a NaN counts as both. No gradient.
Tensor argmax(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor argmin(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor argmax(const Tensor& x, std::integral auto axis, KeepAxes keep = KeepAxes::no) {
  return argmax(x, Axes{static_cast<int64_t>(axis)}, keep);
}
Tensor argmin(const Tensor& x, std::integral auto axis, KeepAxes keep = KeepAxes::no) {
  return argmin(x, Axes{static_cast<int64_t>(axis)}, keep);
}
/// Whether any element is not 0, and whether none is 0. No gradient.
Tensor any(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor all(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Sums a broadcast gradient back to `shape`: the adjoint of expand.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace vitrine
