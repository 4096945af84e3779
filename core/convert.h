// Conversion of one scalar to the scalar type of another dtype.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace vitrine {

/// Converts a double to a 16-bit type with a single rounding. If the conversion to float is
/// inexact, the float is truncated and its last bit is set ("rounding to odd"). The second
/// rounding, to half as many bits, then cannot mistake the float for a tie.
template <class To>
VITRINE_HD To round_once(double x) {
  float y = static_cast<float>(x);
  if (static_cast<double>(y) != x) {
    uint32_t bits = std::bit_cast<uint32_t>(y);
    const double size = static_cast<double>(y);
    if ((size < 0 ? -size : size) > (x < 0 ? -x : x)) --bits;
    y = std::bit_cast<float>(bits | 1u);
  }
  return To(y);
}

/// Floats round to nearest. Floats to integers truncate; values out of range become the nearest end
/// of the range, and NaN becomes 0. Conversion to bool is `x != 0`. A Dual keeps its tangent only
/// when it is converted to a Dual.
template <class To, class From>
VITRINE_HD To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, Dual>) {
    return convert<To>(x.value);
  } else if constexpr (std::is_same_v<To, Dual>) {
    return Dual(convert<double>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<AccumulatorOf<From>>(x) != 0;
  } else if constexpr (!std::is_same_v<AccumulatorOf<To>, To>) {
    if constexpr (std::is_same_v<AccumulatorOf<From>, float>) return To(static_cast<float>(x));
    return round_once<To>(static_cast<double>(x));
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using Limits = std::numeric_limits<To>;
    constexpr To least = Limits::min(), most = Limits::max();
    constexpr auto end =
        static_cast<AccumulatorOf<From>>(uint64_t{1} << Limits::digits);  // most + 1, exactly
    const auto value = static_cast<AccumulatorOf<From>>(x);
    if (value >= end) return most;
    if (value < (std::is_signed_v<To> ? -end : 0)) return least;
    return value == value ? static_cast<To>(value) : To(0);
  } else {
    return static_cast<To>(static_cast<AccumulatorOf<From>>(x));
  }
}

}  // namespace vitrine
