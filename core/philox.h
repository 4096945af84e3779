// The counter-based random number generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
// random numbers: as easy as 1, 2, 3; SC 2011). Number i depends on (seed, i) alone: any thread and
// any device computes the same bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "core/float16.h"

namespace vitrine {

/// The position in the random sequence at which the numbers of one kernel start.
struct Draw {
  uint64_t seed = 0, offset = 0;
  /// For a graph on the GPU: the generator's seed at a replay, and its offset relative to the
  /// capture.
  const Draw* moved = nullptr;
  VITRINE_HD Draw now() const { return moved == nullptr ? *this : Draw{moved->seed, offset + moved->offset}; }
};

/// Returns four 32-bit words for a 64-bit key and the two halves of a 128-bit counter.
VITRINE_HD inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t counter, uint64_t upper = 0) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(upper), c3 = static_cast<uint32_t>(upper >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0, p1 = uint64_t{kMultiplier1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

/// A float in [0, 1): the upper 24 bits, so that every value is exact and 1 is never reached.
VITRINE_HD inline float to_uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// A double in [0, 1) with 53 random bits, from words 0 and 1.
VITRINE_HD inline double to_fine_uniform(const std::array<uint32_t, 4>& words) {
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

/// A uniform integer in [0, limit): words 0 and 1 as one 64-bit number, modulo the limit. Numbers
/// at or above the last multiple of the limit are rejected, and the next value of the counter's
/// upper half gives the next number.
VITRINE_HD inline uint64_t to_whole(uint64_t seed, uint64_t counter, uint64_t limit) {
  const uint64_t reject_from = UINT64_MAX - UINT64_MAX % limit;
  for (uint64_t upper = 0;; ++upper) {
    const auto words = philox(seed, counter, upper);
    const uint64_t number = uint64_t{words[0]} << 32 | words[1];
    if (number < reject_from) return number % limit;
  }
}

/// Four standard normal numbers by the Box-Muller method: radius from words 0 and 2, angle from
/// words 1 and 3.
VITRINE_HD inline std::array<float, 4> to_normals(const std::array<uint32_t, 4>& words) {
  constexpr float kTwoPi = 6.283185307179586f;
  std::array<float, 4> normals{};
  for (unsigned pair = 0; pair < 4; pair += 2) {
    // (0, 1]: its logarithm is finite
    const float u = (static_cast<float>(words[pair] >> 8) + 1.0f) * 0x1p-24f;
    const float radius = sqrtf(-2.0f * logf(u)), angle = kTwoPi * to_uniform(words[pair + 1]);
    normals[pair] = radius * cosf(angle);
    normals[pair + 1] = radius * sinf(angle);
  }
  return normals;
}

}  // namespace vitrine
