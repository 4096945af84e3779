// Dual numbers a + b·ε with ε² = 0. Run a function on x + 1·ε: the coefficient of ε in the result
// is the exact derivative. The plain kernels are templates on the scalar type, so they run on Dual
// as on double. The derivatives share no code with any backward and have no step size.
#pragma once

#include <cmath>

namespace vitrine {

/// value + tangent·ε. Operators and functions follow the rules of differentiation; |x| has tangent
/// 0 at 0.
struct Dual {
  double value = 0;
  double tangent = 0;

  constexpr Dual() = default;
  constexpr Dual(double v) : value(v) {}  // implicit: a constant has no tangent
  constexpr Dual(double v, double t) : value(v), tangent(t) {}
  explicit operator double() const { return value; }

  Dual& operator+=(const Dual& y) { return *this = Dual(value + y.value, tangent + y.tangent); }
  Dual& operator-=(const Dual& y) { return *this = Dual(value - y.value, tangent - y.tangent); }
  Dual& operator*=(const Dual& y) {
    return *this = Dual(value * y.value, tangent * y.value + value * y.tangent);
  }
  Dual& operator/=(const Dual& y) {
    const double q = value / y.value;
    return *this = Dual(q, (tangent - q * y.tangent) / y.value);
  }

  friend Dual operator+(Dual x, const Dual& y) { return x += y; }
  friend Dual operator-(Dual x, const Dual& y) { return x -= y; }
  friend Dual operator*(Dual x, const Dual& y) { return x *= y; }
  friend Dual operator/(Dual x, const Dual& y) { return x /= y; }
  friend Dual operator-(const Dual& x) { return {-x.value, -x.tangent}; }

  // Comparisons use the value only, so branches are taken as in the plain function.
  friend bool operator==(const Dual& x, const Dual& y) { return x.value == y.value; }
  friend bool operator!=(const Dual& x, const Dual& y) { return x.value != y.value; }
  friend bool operator<(const Dual& x, const Dual& y) { return x.value < y.value; }
  friend bool operator>(const Dual& x, const Dual& y) { return x.value > y.value; }
  friend bool operator<=(const Dual& x, const Dual& y) { return x.value <= y.value; }
  friend bool operator>=(const Dual& x, const Dual& y) { return x.value >= y.value; }
};

namespace detail {
/// f(x) with derivative f'(x): the chain rule. A zero tangent stays zero even where f' is infinite.
inline Dual chain(const Dual& x, double f, double df) { return {f, x.tangent == 0 ? 0 : x.tangent * df}; }
}  // namespace detail

inline Dual exp(const Dual& x) { return detail::chain(x, std::exp(x.value), std::exp(x.value)); }
inline Dual expm1(const Dual& x) { return detail::chain(x, std::expm1(x.value), std::exp(x.value)); }
inline Dual log(const Dual& x) { return detail::chain(x, std::log(x.value), 1 / x.value); }
inline Dual log1p(const Dual& x) { return detail::chain(x, std::log1p(x.value), 1 / (1 + x.value)); }
inline Dual sqrt(const Dual& x) { return detail::chain(x, std::sqrt(x.value), 0.5 / std::sqrt(x.value)); }
inline Dual sin(const Dual& x) { return detail::chain(x, std::sin(x.value), std::cos(x.value)); }
inline Dual cos(const Dual& x) { return detail::chain(x, std::cos(x.value), -std::sin(x.value)); }
inline Dual abs(const Dual& x) {
  return detail::chain(x, std::abs(x.value), x.value > 0 ? 1 : (x.value < 0 ? -1 : 0));
}
inline Dual tanh(const Dual& x) {
  const double c = std::cosh(x.value);
  return detail::chain(x, std::tanh(x.value), std::isinf(c) ? 0 : 1 / (c * c));
}
inline Dual erf(const Dual& x) {
  constexpr double kTwoOverSqrtPi = 1.1283791670955126;
  return detail::chain(x, std::erf(x.value), kTwoOverSqrtPi * std::exp(-x.value * x.value));
}
/// x^y with both tangents: y·x^(y−1)·x' + x^y·log(x)·y'; the first is 0 where y = 0, the second
/// where x = 0.
inline Dual pow(const Dual& x, const Dual& y) {
  const double p = std::pow(x.value, y.value);
  const double dx = x.tangent == 0 || y.value == 0 ? 0 : x.tangent * y.value * std::pow(x.value, y.value - 1);
  const double dy = y.tangent == 0 || x.value == 0 ? 0 : y.tangent * p * std::log(x.value);
  return {p, dx + dy};
}
inline bool isnan(const Dual& x) { return std::isnan(x.value); }

}  // namespace vitrine
