// Division of indices by sizes that are known before a launch. A GPU has no instruction for integer
// division: a division takes about twenty instructions, and about a hundred for 64 bits. A
// multiplication by 2³²⁺ˢ/d, slightly increased, and a shift give the same quotient.
#pragma once

#include <bit>
#include <cstdint>

#include "core/float16.h"

namespace vitrine::cuda {

/// n / d for 0 ≤ n < 2³¹ and 1 ≤ d < 2³¹: n·m / 2³²⁺ˢ for m = ⌊2³²⁺ˢ/d⌋ + 1 and 2ˢ ≥ d > 2ˢ⁻¹. m·d
/// exceeds 2³²⁺ˢ by at most d ≤ 2ˢ, so the error n·(m·d − 2³²⁺ˢ)/(d·2³²⁺ˢ) is below 1/d. m has 33
/// bits. Its highest bit is always 1; the product with this bit is added as n. Source: Granlund and
/// Montgomery, Division by invariant integers using multiplication, 1994.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t d)
      : shift_(static_cast<uint32_t>(std::bit_width(d - 1))),
        multiplier_(static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift_) - d)) / d + 1)) {}

  VITRINE_HD uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * multiplier_ >> 32);
    return (high + n) >> shift_;
  }

 private:
  uint32_t shift_ = 0, multiplier_ = 1;
};

}  // namespace vitrine::cuda
