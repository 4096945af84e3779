// Rows of numbers that are not stored as plain arrays. Vector loops load and store them as arrays
// (core/simd/vector-inl.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace vitrine {

/// Floats in two halves (core/halves.h).
struct HalvesPointer {
  bfloat16* high;
  uint16_t* low;
  HalvesPointer operator+(size_t i) const { return {high + i, low + i}; }
};

/// Numbers that are multiplied by a factor when they are loaded.
template <class S>
struct ScaledPointer {
  const S* x;
  AccumulatorOf<S> factor;
  ScaledPointer operator+(size_t i) const { return {x + i, factor}; }
};

/// bfloat16 numbers that are rounded stochastically when they are stored
/// (core/stochastic_rounding.h). `x` is element `i` of its array.
struct StochasticPointer {
  bfloat16* x = nullptr;
  uint32_t i = 0, key = 0;
  StochasticPointer operator+(size_t n) const { return {x + n, i + static_cast<uint32_t>(n), key}; }
};

}  // namespace vitrine
