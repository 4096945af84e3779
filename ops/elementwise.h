// Elementwise operations. Two operands broadcast as in NumPy and are promoted (core/dtype.h); a
// plain number never changes a tensor's dtype (integers take whole numbers of their range). bool
// counts as int64 in arithmetic, integers wrap around and give float32 where fractions come out.
// Each function's formula and derivative are in ops/formulas-inl.h.
#pragma once

#include "core/tensor.h"

namespace vitrine {

Tensor add(const Tensor& x, const Tensor& y);  ///< x + y
Tensor sub(const Tensor& x, const Tensor& y);  ///< x − y
Tensor mul(const Tensor& x, const Tensor& y);  ///< x · y
/// x / y; ±∞ or NaN for y = 0. Integers and bool are divided as float32, −7/2 = −3.5 (NumPy: as
/// float64).
Tensor div(const Tensor& x, const Tensor& y);
/// x^y; NaN where x < 0 and y is not whole. ∂/∂x is 0 where y = 0; ∂/∂y = x^y·log x, 0 where x = 0.
/// Integers: whole y ≥ 0.
Tensor pow(const Tensor& x, const Tensor& y);
/// The larger (smaller) one; NaN if either is. The gradient goes to the chosen operand, half to
/// each where they are equal.
Tensor maximum(const Tensor& x, const Tensor& y);
Tensor minimum(const Tensor& x, const Tensor& y);

// With a plain number: as above with y everywhere, but x keeps its dtype.
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
Tensor expm1(const Tensor& x);       ///< eˣ − 1, exact near 0
Tensor log(const Tensor& x);         ///< natural logarithm; −∞ at 0, NaN for x < 0
Tensor log1p(const Tensor& x);       ///< log(1 + x), exact near 0; −∞ at −1, NaN below
Tensor sin(const Tensor& x);         ///< of radians; NaN for ±∞
Tensor cos(const Tensor& x);         ///< of radians; NaN for ±∞
Tensor tanh(const Tensor& x);        ///< (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)
Tensor erf(const Tensor& x);         ///< 2/√π·∫₀ˣ e^(−t²) dt
Tensor sigmoid(const Tensor& x);     ///< 1/(1 + e⁻ˣ)
/// x limited to [low, high]; the gradient passes where low ≤ x ≤ high.
Tensor clamp(const Tensor& x, double low, double high);

/// In place, for constants and inside Tape::Pause: x ← x + scale·y, and x ← scale·x. y may be
/// another view of x's memory; an expanded x is an error.
void add_in_place(Tensor& x, const Tensor& y, double scale = 1);
void scale_in_place(Tensor& x, double scale);

// Comparisons and logic give bool and have no gradient; with NaN only not_equal is true. Logic
// takes bool only.
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

/// condition ? x : y, all three broadcast; condition is bool. The gradient goes to the chosen
/// operand only.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor where(const Tensor& condition, const Tensor& x, double y);

}  // namespace vitrine
