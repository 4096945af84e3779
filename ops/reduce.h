// Reductions over any axes (all of them where none are given). KeepAxes::yes leaves reduced axes
// with size 1. bfloat16 and float16 are summed in float32 and rounded once; mean, var, std and norm
// want a floating dtype. Of no elements, sum is 0, prod 1, any false, all true; the others are
// errors.
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
/// Π x. The product of bool and integers is int64. The gradient is right at zeros too.
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest (smallest) element; NaN if any element is. Equal extremes share the gradient evenly.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor min(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Σ(x − mean)²/(n − correction); correction 0 is the biased variance, 1 the unbiased one; std is
/// its root. The std of numbers whose squares overflow or vanish is right; their variance overflows
/// or vanishes.
Tensor var(const Tensor& x, const Axes& axes = {}, int64_t correction = 0, KeepAxes keep = KeepAxes::no);
Tensor std(const Tensor& x, const Axes& axes = {}, int64_t correction = 0, KeepAxes keep = KeepAxes::no);
/// (Σ|x|^p)^(1/p); p = 1, 2, other positive numbers, or infinity. The gradient at x = 0 is 0. x is
/// divided by a scale before its powers are taken, so that neither they nor the gradient overflow
/// or vanish where the norm does not.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// Running sums along an axis, of bool and integers in int64; `exclusive` leaves out the element
/// itself, `reverse` sums from the end.
Tensor cumsum(const Tensor& x, int64_t axis, bool exclusive = false, bool reverse = false);

/// int64 position of the first largest (smallest) element along an axis, or among those of several
/// axes in row-major order; a NaN counts as both. No gradient.
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
