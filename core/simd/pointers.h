// Rows of numbers that are not stored as plain arrays. Vector loops load and store them as arrays
// (core/simd/vector-inl.h).
#pragma once

#include <cstddef>

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

}  // namespace vitrine
