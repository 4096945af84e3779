// Elementwise operations. Two operands broadcast as in NumPy and are promoted (core/dtype.h). A
// plain number never changes a tensor's dtype; for an integer tensor it must be a whole number in
// the dtype's range. In arithmetic bool counts as int64. Integers wrap around; functions with
// fractional results give float32 for them. Each function's formula and derivative are in
// ops/formulas-inl.h.
#pragma once

#include "core/tensor.h"

namespace vitrine {

Tensor add(const Tensor& x, const Tensor& y);  ///< x + y
Tensor sub(const Tensor& x, const Tensor& y);  ///< x − y
Tensor mul(const Tensor& x, const Tensor& y);  ///< x · y
/// x / y; ±∞ or NaN for y = 0. Integers and bool are divided in float32, so −7/2 = −3.5 (NumPy
/// divides in float64).
Tensor div(const Tensor& x, const Tensor& y);
/// x^y; NaN if x < 0 and y is not an integer. ∂/∂x is 0 where y = 0. ∂/∂y = x^y·log x, and 0 where
/// x = 0. Integer dtypes require y ≥ 0.
Tensor pow(const Tensor& x, const Tensor& y);
/// The larger (smaller) operand; NaN if either is NaN. The gradient goes to the chosen operand, or
/// half to each if they are equal.
Tensor maximum(const Tensor& x, const Tensor& y);
Tensor minimum(const Tensor& x, const Tensor& y);

// The same with a plain number y; x keeps its dtype.
Tensor pow(const Tensor& x, double y);
Tensor maximum(const Tensor& x, double y);
Tensor minimum(const Tensor& x, double y);

inline Tensor operator+(const Tensor& x, const Tensor& y) { return add(x, y); }
inline Tensor operator-(const Tensor& x, const Tensor& y) { return sub(x, y); }
inline Tensor operator*(const Tensor& x, const Tensor& y) { return mul(x, y); }
inline Tensor operator/(const Tensor& x, const Tensor& y) { return div(x, y); }
Tensor operator+(const Tensor& x, double y);
Tensor operator-(const Tensor& x, double y);
Tensor operator*(const Tensor& x, double y);
Tensor operator/(const Tensor& x, double y);
Tensor operator+(double x, const Tensor& y);
Tensor operator-(double x, const Tensor& y);
Tensor operator*(double x, const Tensor& y);
Tensor operator/(double x, const Tensor& y);
Tensor operator-(const Tensor& x);

Tensor neg(const Tensor& x);         ///< −x
Tensor abs(const Tensor& x);         ///< |x|; derivative 0 at 0
Tensor sign(const Tensor& x);        ///< −1, 0 or 1; derivative 0
Tensor square(const Tensor& x);      ///< x²
Tensor reciprocal(const Tensor& x);  ///< 1/x; ±∞ at ±0
Tensor sqrt(const Tensor& x);        ///< √x; NaN for x < 0; derivative ∞ at 0
Tensor rsqrt(const Tensor& x);       ///< 1/√x; ∞ at 0, NaN for x < 0
Tensor exp(const Tensor& x);         ///< eˣ
Tensor expm1(const Tensor& x);       ///< eˣ − 1, accurate near 0
Tensor log(const Tensor& x);         ///< natural logarithm; −∞ at 0, NaN for x < 0
Tensor log1p(const Tensor& x);       ///< log(1 + x), accurate near 0; −∞ at −1, NaN below
Tensor sin(const Tensor& x);         ///< of radians; NaN for ±∞
Tensor cos(const Tensor& x);         ///< of radians; NaN for ±∞
Tensor tanh(const Tensor& x);        ///< (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)
Tensor erf(const Tensor& x);         ///< 2/√π·∫₀ˣ e^(−t²) dt
Tensor sigmoid(const Tensor& x);     ///< 1/(1 + e⁻ˣ)
/// x limited to [low, high]; the gradient passes where low ≤ x ≤ high.
Tensor clamp(const Tensor& x, double low, double high);

/// x ← x + scale·y, and x ← scale·x, in place, for constants and inside Tape::Pause. y may be
/// another view of x's memory; an expanded x is an error.
void add_in_place(Tensor& x, const Tensor& y, double scale = 1);
void scale_in_place(Tensor& x, double scale);

// Comparisons and logic give bool and have no gradient. With NaN only not_equal is true. Logic
// accepts bool only.
Tensor equal(const Tensor& x, const Tensor& y);          ///< x = y
Tensor not_equal(const Tensor& x, const Tensor& y);      ///< x ≠ y, true with NaN
Tensor less(const Tensor& x, const Tensor& y);           ///< x < y
Tensor less_equal(const Tensor& x, const Tensor& y);     ///< x ≤ y
Tensor greater(const Tensor& x, const Tensor& y);        ///< x > y
Tensor greater_equal(const Tensor& x, const Tensor& y);  ///< x ≥ y
Tensor logical_and(const Tensor& x, const Tensor& y);    ///< x and y
Tensor logical_or(const Tensor& x, const Tensor& y);     ///< x or y
Tensor logical_xor(const Tensor& x, const Tensor& y);    ///< x or y, but not both
Tensor logical_not(const Tensor& x);                     ///< not x
Tensor is_nan(const Tensor& x);                          ///< false for integers and bool
Tensor is_finite(const Tensor& x);  ///< neither NaN nor ±∞; true for integers and bool

/// condition ? x : y, with all three operands broadcast; condition is bool. The gradient goes to
/// the chosen operand only.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor where(const Tensor& condition, const Tensor& x, double y);

}  // namespace vitrine
