// Stochastic rounding: float32 to bfloat16, so that the mean of the result is exact.
#pragma once

#include <bit>
#include <cstdint>

#include "core/float16.h"

namespace vitrine {

/// 16 random bits, uniform over 0 … 65535, that depend only on the number `i` of an element and on
/// the key of its array: the upper half of the word into which the last steps of MurmurHash3
/// (Appleby 2011) mix both. Rounding needs less than core/philox.h gives, and this takes two
/// multiplications.
VITRINE_HD inline uint32_t random_bits16(uint32_t i, uint32_t key) {
  uint32_t h = i ^ key;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h >> 16;
}

/// The key of array number `array` in step number `step`. The number of the array is spread over
/// all bits, so that no array gets the key that another has in another step. The arrays of one
/// kind, such as the first moments of all parameters, share a number: their elements i get the same
/// bits. Each element is rounded without bias, but the errors of elements i are not independent.
VITRINE_HD inline uint32_t rounding_key(uint32_t step, uint32_t array) {
  const uint32_t apart = (array + 1) * 0x9e3779b9u;  // 2^32 over the golden ratio
  return random_bits16(step, apart) << 16 | random_bits16(~step, apart);
}

/// One of the two neighbours of x in bfloat16. The distance from x to the lower one, in units of
/// the distance between both, is the probability of the upper one, so that the mean over `bits` (0
/// … 65535) is x. An x that bfloat16 has stays as it is. Gupta et al. 2015, section 3.
///
/// Rounding to nearest would lose every update that is smaller than half of that distance: a mean
/// that decays by 0.999 per step changes by about 2^−10 of itself, and the distance is at least
/// 2^−8 of x. Above the largest bfloat16, 3.39e38, the upper neighbour is infinity.
VITRINE_HD inline bfloat16 round_stochastically(float x, uint32_t bits) {
  const auto word = std::bit_cast<uint32_t>(x);
  const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
  bfloat16 y;
  y.bits = static_cast<uint16_t>((is_nan ? word | 0x400000u : word + bits) >> 16);
  return y;
}

}  // namespace vitrine
