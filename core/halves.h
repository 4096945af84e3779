// A float32 as two halves of 16 bits: a bfloat16 that kernels can read, and the rest. A parameter
// in bfloat16 stores its float32 master in this form (core/parameter.h).
#pragma once

#include <bit>
#include <cstdint>

#include "core/float16.h"

namespace vitrine {

/// `high` is x rounded to bfloat16, to nearest, with ties away from 0. `low` is the lower 16 bits
/// of x. Together they are x, bit for bit. Ties to even would need one more bit: a tie that rounds
/// down and a tie that rounds up can have equal halves. A NaN is the exception: it becomes a quiet
/// NaN whose low half is 0, so that no NaN is rounded to infinity.
struct Halves {
  bfloat16 high;
  uint16_t low;

  VITRINE_HD Halves(bfloat16 high, uint16_t low) : high(high), low(low) {}
  VITRINE_HD explicit Halves(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    high.bits = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u : (bits + 0x8000u) >> 16);
    low = static_cast<uint16_t>(is_nan ? 0 : bits);
  }
  /// x. The upper half was rounded up exactly if the first bit of the lower half is set.
  VITRINE_HD float joined() const {
    return std::bit_cast<float>((static_cast<uint32_t>(high.bits - (low >> 15)) << 16) | low);
  }
};

}  // namespace vitrine
