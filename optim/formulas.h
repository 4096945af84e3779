// The formulas of the update rules (optim/formulas-inl.h) for scalars, and limits on the numbers
// that they use.
#pragma once

#include <array>

#include "core/math.h"

namespace vitrine::optim {

/// The largest gradient whose square is used: 2^60 in float32 and 2^400 in float64, so that squares
/// and their sums are finite.
template <class T>
inline constexpr T kLargestGradient = static_cast<T>(sizeof(T) == 4 ? 0x1p60 : 0x1p400);

/// g, limited to the largest gradient with the sign of g; NaN if g is NaN or infinite. Rules that
/// divide by the root of squares use this instead of g. Otherwise finite gradients could make the
/// moments infinite, and they would stay infinite.
template <class T>
VITRINE_HD T limited(T g) {
  constexpr T most = kLargestGradient<T>;
  return math::max(math::min(g, most), -most) + g * T(0);
}

/// The eps that is added to √v: at least the square root of the smallest normal T, because below it
/// v underflows although g does not.
template <class T>
VITRINE_HD T in_denominator(double eps) {
  return T(math::max(eps, sizeof(T) == 4 ? 0x1p-63 : 0x1p-511));
}
/// The eps that is added to v itself: at least the smallest normal T.
template <class T>
VITRINE_HD T at_least_normal(double eps) {
  return T(math::max(eps, sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022));
}

namespace formulas {
using namespace math;
#include "optim/formulas-inl.h"
}  // namespace formulas

}  // namespace vitrine::optim
