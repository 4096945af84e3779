// Stochastic rounding: the two neighbours, an exact mean, and random bits without a pattern.
#include "core/stochastic_rounding.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

using namespace vitrine;

TEST_CASE("the result is a neighbour in bfloat16, and the mean over all random bits is the number") {
  for (const float x : {1.0f, 1.001f, -3.14159f, 1e-3f, 7.77e-20f, -6.02e23f, 1e-40f, 0.0f, -0.0f}) {
    INFO(x);
    const bfloat16 low = round_stochastically(x, 0), high = round_stochastically(x, 0xffff);
    CHECK(high.bits - low.bits == (bfloat16(x) == x ? 0 : 1));
    double sum = 0;
    for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
      const bfloat16 y = round_stochastically(x, bits);
      REQUIRE((y.bits == low.bits || y.bits == high.bits));
      sum += static_cast<double>(y);
    }
    CHECK(sum / (1 << 16) == static_cast<double>(x));
  }
}

TEST_CASE("infinities stay, every NaN stays a NaN, and what lies above the largest bfloat16 may round up") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const uint32_t bits : {0u, 0x8000u, 0xffffu}) {
    CHECK(round_stochastically(kInfinity, bits) == kInfinity);
    CHECK(round_stochastically(-kInfinity, bits) == -kInfinity);
    for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
      CHECK(std::isnan(static_cast<float>(round_stochastically(std::bit_cast<float>(nan), bits))));
  }
  CHECK(round_stochastically(std::numeric_limits<float>::max(), 0xffff) == kInfinity);
}

TEST_CASE("random bits: each is set half of the time, on neighbouring elements, steps and states alike") {
  constexpr int kCount = 1 << 16;
  const auto check_balance = [](auto bits_of) {
    int set[16] = {}, differ[16] = {};
    double sum = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t bits = bits_of(i), next = bits_of(i + 1);
      REQUIRE(bits < 1u << 16);
      sum += bits;
      for (int k = 0; k < 16; ++k) set[k] += bits >> k & 1, differ[k] += (bits ^ next) >> k & 1;
    }
    // Five standard deviations of a fair coin, and of a uniform number
    const double limit = 5 * std::sqrt(kCount) / 2;
    for (int k = 0; k < 16; ++k) {
      CHECK(std::abs(set[k] - kCount / 2) < limit);
      CHECK(std::abs(differ[k] - kCount / 2) < limit);
    }
    CHECK(std::abs(sum / kCount - 32767.5) < 5 * 65536 / std::sqrt(12.0 * kCount));
  };
  check_balance([](uint32_t i) { return random_bits16(i, rounding_key(1, 0)); });
  check_balance([](uint32_t i) { return random_bits16(i, rounding_key(1, 1)); });
  check_balance([](uint32_t step) { return random_bits16(0, rounding_key(step, 0)); });
  check_balance([](uint32_t step) { return random_bits16(12345, rounding_key(step, 1)); });
  for (const uint32_t other :
       {rounding_key(2, 1), rounding_key(3, 0), rounding_key(3, 1), rounding_key(4, 2)})
    check_balance(
        [other](uint32_t i) { return random_bits16(i, rounding_key(2, 0)) ^ random_bits16(i, other); });
  check_balance(
      [](uint32_t i) { return random_bits16(i, rounding_key(2, 1)) ^ random_bits16(i, rounding_key(3, 0)); });
}

TEST_CASE("every array has a key of its own in every step") {
  std::set<uint32_t> keys;
  for (uint32_t step = 1; step <= 2000; ++step)
    for (uint32_t array = 0; array < 3; ++array) keys.insert(rounding_key(step, array));
  CHECK(keys.size() >= 5990);  // of 6000: a few of so many random words may be equal
}
