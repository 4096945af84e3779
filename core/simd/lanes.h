// The number types with which an elementwise formula is evaluated (ops/elementwise_formula.h).
// Lanes are a run of elements as one value: 64 elements on the CPU, where each operation is a loop
// over them, and one on a GPU. A Tangent carries a derivative together with a value, through the
// same operations.
//
// A formula may use + − · ÷, comparisons, and exp expm1 log log1p sqrt rsqrt sin cos tanh erf abs
// sign min max select mul_add. A formula has no branches: a comparison gives a mask, and
// select(mask, x, y) chooses by the mask.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/math.h"
#include "core/simd/row_functions.h"

namespace vitrine::lanes {

/// A truth value for each of N elements of T: all bits or none, so that selection needs no branch.
template <class T, int N>
struct LaneMask {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Bits at[N];

  friend VITRINE_HD LaneMask operator&&(const LaneMask& x, const LaneMask& y) {
    LaneMask z;
    for (int i = 0; i < N; ++i) z.at[i] = x.at[i] & y.at[i];
    return z;
  }
  friend VITRINE_HD LaneMask operator||(const LaneMask& x, const LaneMask& y) {
    LaneMask z;
    for (int i = 0; i < N; ++i) z.at[i] = x.at[i] | y.at[i];
    return z;
  }
  friend VITRINE_HD LaneMask operator!(const LaneMask& x) {
    LaneMask z;
    for (int i = 0; i < N; ++i) z.at[i] = ~x.at[i];
    return z;
  }
};

/// N elements of type float or double.
template <class T, int N>
struct Lanes {
  T at[N];

  Lanes() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> VITRINE_HD Lanes(Number x) {  // implicit: a constant
    for (T& lane : at) lane = static_cast<T>(x);
  }

#define VITRINE_LANES_OPERATOR(symbol)                                      \
  friend VITRINE_HD Lanes operator symbol(const Lanes& x, const Lanes& y) { \
    Lanes z;                                                                \
    for (int i = 0; i < N; ++i) z.at[i] = x.at[i] symbol y.at[i];           \
    return z;                                                               \
  }
  VITRINE_LANES_OPERATOR(+)
  VITRINE_LANES_OPERATOR(-)
  VITRINE_LANES_OPERATOR(*)
  VITRINE_LANES_OPERATOR(/)
#undef VITRINE_LANES_OPERATOR
  friend VITRINE_HD Lanes operator-(const Lanes& x) {
    Lanes y;
    for (int i = 0; i < N; ++i) y.at[i] = -x.at[i];
    return y;
  }

  using Mask = LaneMask<T, N>;
#define VITRINE_LANES_COMPARISON(symbol)                                               \
  friend VITRINE_HD Mask operator symbol(const Lanes& x, const Lanes& y) {             \
    using Bits = typename Mask::Bits;                                                  \
    Mask z;                                                                            \
    for (int i = 0; i < N; ++i) z.at[i] = x.at[i] symbol y.at[i] ? ~Bits(0) : Bits(0); \
    return z;                                                                          \
  }
  VITRINE_LANES_COMPARISON(==)
  VITRINE_LANES_COMPARISON(!=)
  VITRINE_LANES_COMPARISON(<)
  VITRINE_LANES_COMPARISON(>)
  VITRINE_LANES_COMPARISON(<=)
  VITRINE_LANES_COMPARISON(>=)
#undef VITRINE_LANES_COMPARISON
};

template <class T, int N>
VITRINE_HD Lanes<T, N> select(const LaneMask<T, N>& condition, const Lanes<T, N>& x, const Lanes<T, N>& y) {
  using Bits = typename LaneMask<T, N>::Bits;
  Lanes<T, N> z;
  for (int i = 0; i < N; ++i)
    z.at[i] = std::bit_cast<T>((std::bit_cast<Bits>(x.at[i]) & condition.at[i]) |
                               (std::bit_cast<Bits>(y.at[i]) & ~condition.at[i]));
  return z;
}

// Tells nvcc not to warn of a call to a host-only function.
#ifdef __CUDACC__
#define VITRINE_HOST_ALONE _Pragma("nv_exec_check_disable")
#else
#define VITRINE_HOST_ALONE
#endif

/// One lane calls the scalar function. Several lanes, which exist only on the host, use the vectors
/// of the instruction set in use.
#define VITRINE_LANES_FUNCTION(name)                                  \
  VITRINE_HOST_ALONE                                                  \
  template <class T, int N>                                           \
  VITRINE_HD Lanes<T, N> name(const Lanes<T, N>& x) {                 \
    Lanes<T, N> y;                                                    \
    if constexpr (N == 1) {                                           \
      y.at[0] = math::name(x.at[0]);                                  \
    } else {                                                          \
      vecmath::apply(vecmath::Function::name, y.at, x.at, size_t{N}); \
    }                                                                 \
    return y;                                                         \
  }
VITRINE_LANES_FUNCTION(exp)
VITRINE_LANES_FUNCTION(expm1)
VITRINE_LANES_FUNCTION(log)
VITRINE_LANES_FUNCTION(log1p)
VITRINE_LANES_FUNCTION(sqrt)
VITRINE_LANES_FUNCTION(rsqrt)
VITRINE_LANES_FUNCTION(sin)
VITRINE_LANES_FUNCTION(cos)
VITRINE_LANES_FUNCTION(tanh)
VITRINE_LANES_FUNCTION(erf)
#undef VITRINE_LANES_FUNCTION
#undef VITRINE_HOST_ALONE

template <class T, int N>
VITRINE_HD Lanes<T, N> abs(const Lanes<T, N>& x) {
  Lanes<T, N> y;
  for (int i = 0; i < N; ++i) y.at[i] = math::abs(x.at[i]);
  return y;
}
template <class T, int N>
VITRINE_HD Lanes<T, N> sign(const Lanes<T, N>& x) {
  Lanes<T, N> y;
  for (int i = 0; i < N; ++i) y.at[i] = math::sign(x.at[i]);
  return y;
}
template <class T, int N>
VITRINE_HD LaneMask<T, N> is_zero(const Lanes<T, N>& x) {
  return x == Lanes<T, N>(0);
}

/// value + tangent·ε with ε² = 0: for x + ε the tangent is the derivative. T is Lanes or, for the
/// next derivative, itself a Tangent.
template <class T>
struct Tangent {
  T value, tangent;

  Tangent() = default;
  VITRINE_HD Tangent(const T& v, const T& t) : value(v), tangent(t) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> VITRINE_HD Tangent(Number x) : value(x), tangent(0) {}

  friend VITRINE_HD Tangent operator+(const Tangent& x, const Tangent& y) {
    return {x.value + y.value, x.tangent + y.tangent};
  }
  friend VITRINE_HD Tangent operator-(const Tangent& x, const Tangent& y) {
    return {x.value - y.value, x.tangent - y.tangent};
  }
  friend VITRINE_HD Tangent operator*(const Tangent& x, const Tangent& y) {
    return {x.value * y.value, x.tangent * y.value + x.value * y.tangent};
  }
  friend VITRINE_HD Tangent operator/(const Tangent& x, const Tangent& y) {
    const T q = x.value / y.value;
    return {q, (x.tangent - q * y.tangent) / y.value};
  }
  friend VITRINE_HD Tangent operator-(const Tangent& x) { return {-x.value, -x.tangent}; }

  friend VITRINE_HD auto operator==(const Tangent& x, const Tangent& y) { return x.value == y.value; }
  friend VITRINE_HD auto operator!=(const Tangent& x, const Tangent& y) { return x.value != y.value; }
  friend VITRINE_HD auto operator<(const Tangent& x, const Tangent& y) { return x.value < y.value; }
  friend VITRINE_HD auto operator>(const Tangent& x, const Tangent& y) { return x.value > y.value; }
  friend VITRINE_HD auto operator<=(const Tangent& x, const Tangent& y) { return x.value <= y.value; }
  friend VITRINE_HD auto operator>=(const Tangent& x, const Tangent& y) { return x.value >= y.value; }
};

template <class S, int N, class T>
VITRINE_HD Tangent<T> select(const LaneMask<S, N>& condition, const Tangent<T>& x, const Tangent<T>& y) {
  return {select(condition, x.value, y.value), select(condition, x.tangent, y.tangent)};
}
template <class T>
VITRINE_HD auto is_zero(const Tangent<T>& x) {
  return is_zero(x.value) && is_zero(x.tangent);
}

/// f(x) with derivative f'(x): the chain rule. A zero tangent stays zero even where f' is infinite.
template <class T>
VITRINE_HD Tangent<T> chain(const Tangent<T>& x, const T& f, const T& df) {
  return {f, select(is_zero(x.tangent), T(0), x.tangent * df)};
}

template <class T>
VITRINE_HD Tangent<T> exp(const Tangent<T>& x) {
  const T e = exp(x.value);
  return chain(x, e, e);
}
template <class T>
VITRINE_HD Tangent<T> expm1(const Tangent<T>& x) {
  return chain(x, expm1(x.value), exp(x.value));
}
template <class T>
VITRINE_HD Tangent<T> log(const Tangent<T>& x) {
  return chain(x, log(x.value), T(1) / x.value);
}
template <class T>
VITRINE_HD Tangent<T> log1p(const Tangent<T>& x) {
  return chain(x, log1p(x.value), T(1) / (T(1) + x.value));
}
template <class T>
VITRINE_HD Tangent<T> sqrt(const Tangent<T>& x) {
  const T root = sqrt(x.value);
  return chain(x, root, T(0.5) / root);
}
template <class T>
VITRINE_HD Tangent<T> rsqrt(const Tangent<T>& x) {
  const T r = rsqrt(x.value);
  return chain(x, r, T(-0.5) * r / x.value);
}
template <class T>
VITRINE_HD Tangent<T> sin(const Tangent<T>& x) {
  return chain(x, sin(x.value), cos(x.value));
}
template <class T>
VITRINE_HD Tangent<T> cos(const Tangent<T>& x) {
  return chain(x, cos(x.value), -sin(x.value));
}
template <class T>
VITRINE_HD Tangent<T> tanh(const Tangent<T>& x) {
  const T t = tanh(x.value);
  return chain(x, t, T(1) - t * t);
}
template <class T>
VITRINE_HD Tangent<T> erf(const Tangent<T>& x) {
  return chain(x, erf(x.value), T(1.1283791670955126) * exp(-(x.value * x.value)));  // 2/√π
}
template <class T>
VITRINE_HD Tangent<T> abs(const Tangent<T>& x) {
  return chain(x, abs(x.value), sign(x.value));
}
template <class T>
VITRINE_HD Tangent<T> sign(const Tangent<T>& x) {
  return {sign(x.value), T(0)};
}

/// NaN if either argument is NaN, as in math::min and math::max.
template <class T>
VITRINE_HD T min(const T& x, const T& y) {
  return select(x < y || x != x, x, y);
}
template <class T>
VITRINE_HD T max(const T& x, const T& y) {
  return select(x > y || x != x, x, y);
}
template <class T>
VITRINE_HD T mul_add(const T& x, const T& y, const T& z) {
  return x * y + z;
}

}  // namespace vitrine::lanes
