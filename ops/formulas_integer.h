// The elementwise functions of integers (host and device). They wrap around, as in NumPy.
#pragma once

#include <type_traits>

#include "ops/formulas.h"

namespace vitrine {

/// Whether the function has integer results. The others require a floating dtype.
inline bool has_integers(Unary op) {
  return op == Unary::neg || op == Unary::abs || op == Unary::sign || op == Unary::square ||
         op == Unary::relu;
}

template <class I>
VITRINE_HD I integer(Unary op, I x) {
  using U = std::make_unsigned_t<I>;
  switch (op) {
    case Unary::neg: return static_cast<I>(U(0) - static_cast<U>(x));
    case Unary::abs: return x < 0 ? static_cast<I>(U(0) - static_cast<U>(x)) : x;
    case Unary::sign: return static_cast<I>((x > 0) - (x < 0));
    case Unary::square: return static_cast<I>(static_cast<U>(x) * static_cast<U>(x));
    case Unary::relu: return x > 0 ? x : 0;
    default: return 0;
  }
}

/// A power with a negative exponent is 0 here. On the CPU it is an error; a GPU does not check for
/// it. Quotients are not integers, so there is no division.
template <class I>
VITRINE_HD I integer(Binary op, I x, I y) {
  using U = std::make_unsigned_t<I>;
  const U a = static_cast<U>(x), b = static_cast<U>(y);
  switch (op) {
    case Binary::add: return static_cast<I>(a + b);
    case Binary::sub: return static_cast<I>(a - b);
    case Binary::mul: return static_cast<I>(a * b);
    case Binary::div: break;
    case Binary::maximum: return x > y ? x : y;
    case Binary::minimum: return x < y ? x : y;
    case Binary::pow: {
      U result = y >= 0, factor = a;
      for (U left = y >= 0 ? b : 0; left != 0; left >>= 1, factor *= factor)
        if (left & 1) result *= factor;
      return static_cast<I>(result);
    }
  }
  return 0;
}

}  // namespace vitrine
