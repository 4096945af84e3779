// Conversion of one scalar to another dtype's type.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace vitrine {

/// Floats round to nearest; floats to integers truncate, out of range to the nearest end, NaN to 0; anything to bool is
/// "not zero"; a Dual keeps its tangent only in a Dual.
template <class To, class From>
VITRINE_HD To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, Dual>) {
    return convert<To>(x.value);
  } else if constexpr (std::is_same_v<To, Dual>) {
    return Dual(convert<double>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Wide<From>>(x) != 0;
  } else if constexpr (!std::is_same_v<Wide<To>, To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using Limits = std::numeric_limits<To>;
    constexpr To least = Limits::min(), most = Limits::max();
    constexpr auto end = static_cast<Wide<From>>(uint64_t{1} << Limits::digits);  // most + 1, exactly
    const auto value = static_cast<Wide<From>>(x);
    if (value >= end) return most;
    if (value < -end) return least;
    return value == value ? static_cast<To>(value) : To(0);
  } else {
    return static_cast<To>(static_cast<Wide<From>>(x));
  }
}

}  // namespace vitrine
