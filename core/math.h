// The mathematical functions of scalars, under the names that formulas use. Formulas are templates
// that call these names without qualification. For float and double the calls find the functions of
// this file, for Dual those of core/gradcheck/dual.h, and for vectors those of
// core/simd/vector_functions-inl.h.
//
// `min` and `max` return NaN if either argument is NaN, as NumPy's minimum and maximum do. `sign`
// returns NaN and zeros unchanged.
#pragma once

#include <cmath>

#include "core/float16.h"
#include "core/gradcheck/dual.h"

namespace vitrine::math {

/// The scalar types for which the templates of this file exist.
template <class T>
concept Scalar = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Dual>;

using vitrine::abs, vitrine::cos, vitrine::erf, vitrine::exp, vitrine::expm1, vitrine::log, vitrine::log1p;
using vitrine::pow, vitrine::sin, vitrine::sqrt, vitrine::tanh;

#define VITRINE_SCALAR_FUNCTION(name)                            \
  VITRINE_HD inline float name(float x) { return std::name(x); } \
  VITRINE_HD inline double name(double x) { return std::name(x); }

VITRINE_SCALAR_FUNCTION(abs)
VITRINE_SCALAR_FUNCTION(cos)
VITRINE_SCALAR_FUNCTION(erf)
VITRINE_SCALAR_FUNCTION(exp)
VITRINE_SCALAR_FUNCTION(expm1)
VITRINE_SCALAR_FUNCTION(log)
VITRINE_SCALAR_FUNCTION(log1p)
VITRINE_SCALAR_FUNCTION(sin)
VITRINE_SCALAR_FUNCTION(sqrt)
VITRINE_SCALAR_FUNCTION(tanh)
#undef VITRINE_SCALAR_FUNCTION

VITRINE_HD inline float pow(float x, float y) { return std::pow(x, y); }
VITRINE_HD inline double pow(double x, double y) { return std::pow(x, y); }

template <Scalar T>
VITRINE_HD T rsqrt(T x) {
  return T(1) / sqrt(x);
}

template <Scalar T>
VITRINE_HD bool is_nan(T x) {
  return x != x;
}
VITRINE_HD inline bool is_finite(float x) { return x - x == 0; }
VITRINE_HD inline bool is_finite(double x) { return x - x == 0; }
VITRINE_HD inline bool is_finite(const Dual& x) { return is_finite(x.value); }

template <Scalar T>
VITRINE_HD T select(bool condition, T x, T y) {
  return condition ? x : y;
}
template <Scalar T>
VITRINE_HD T min(T x, T y) {
  return x < y || is_nan(x) ? x : y;
}
template <Scalar T>
VITRINE_HD T max(T x, T y) {
  return x > y || is_nan(x) ? x : y;
}
template <Scalar T>
VITRINE_HD T sign(T x) {
  return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x);
}

/// x·y + z. Vectors round once if the machine has fused multiply-add; scalars round twice.
template <Scalar T>
VITRINE_HD T mul_add(T x, T y, T z) {
  return x * y + z;
}

}  // namespace vitrine::math
