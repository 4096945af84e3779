// The two 16-bit floating types. They are storage types: kernels convert them to float, compute,
// and convert back (to nearest, ties to even). GPUs have instructions for these conversions, which
// round in the same way. They turn every NaN into 0x7fff; the CPU keeps a NaN's sign and upper
// bits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#if defined(__CUDACC__)
#define VITRINE_HD __host__ __device__
#else
#define VITRINE_HD
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define VITRINE_GPU_FLOAT16 1
#else
#define VITRINE_GPU_FLOAT16 0
#endif

namespace vitrine {

/// The upper half of a float32: 8 exponent bits, 7 stored fraction bits, epsilon 2^-7.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  VITRINE_HD explicit bfloat16(float value) {
#if VITRINE_GPU_FLOAT16
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
  }
  VITRINE_HD operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

/// IEEE binary16: 5 exponent bits, 10 stored fraction bits, largest finite value 65504, epsilon
/// 2^-10.
struct float16 {
  uint16_t bits = 0;

  float16() = default;
  VITRINE_HD explicit float16(float value) {
#if VITRINE_GPU_FLOAT16
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    uint32_t result;
    if (magnitude > 0x7f800000u) {
      result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN, kept quiet
    } else if (magnitude >= 0x477ff000u) {
      result = 0x7c00u;  // 65520 and above round to infinity
    } else if (magnitude < 0x38800000u) {
      // Subnormal in float16: adding 0.5 aligns the fraction so that the float addition itself
      // rounds.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
      result = std::bit_cast<uint32_t>(aligned) - 0x3f000000u;
    } else {
      const uint32_t odd = (magnitude >> 13) & 1u;
      result = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
    }
    bits = static_cast<uint16_t>(sign | result);
#endif
  }
  VITRINE_HD operator float() const {
#if VITRINE_GPU_FLOAT16
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
#endif
  }
};

}  // namespace vitrine

template <>
struct std::numeric_limits<vitrine::bfloat16> : std::numeric_limits<float> {
  static constexpr float epsilon() { return 0x1p-7f; }
};
template <>
struct std::numeric_limits<vitrine::float16> : std::numeric_limits<float> {
  static constexpr float epsilon() { return 0x1p-10f; }
};
