// Powers of 2 by the special function unit, and functions for 16-bit results that use them.
#pragma once

#include <cfloat>
#include <cmath>

#include "core/math.h"
#include "cuda/launch.h"

namespace vitrine::cuda {

/// 2^x within 2 units of rounding, with 0 in place of denormal results (ex2.approx.ftz). This is
/// one instruction; std::exp2 takes five, because it also computes denormal results.
__device__ inline float fast_exp2(float x) {
#if VITRINE_CUDA_EMULATED
  const float y = std::exp2(x);
  return y < FLT_MIN ? 0 : y;
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// log₂ x of a normal x (lg2.approx.ftz), with an absolute error below 2^-22 for x from 0.5 to 2,
/// and such a relative error elsewhere.
__device__ inline float fast_log2(float x) {
#if VITRINE_CUDA_EMULATED
  return std::log2(x);
#else
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#endif
}

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// eˣ. For 16-bit results it takes three instructions in place of eight: its relative error, 2^-17
/// at most for x from −88 to 88, is far below their rounding error.
template <class S>
__device__ AccumulatorOf<S> exp_for(AccumulatorOf<S> x) {
  if constexpr (sizeof(S) == 2) {
    return fast_exp2(x * kLog2E);
  } else {
    return math::exp(x);
  }
}

/// eˣ − 1, with a relative error below 5e-5: near 0 by its series.
__device__ inline float fast_expm1(float x) {
  const float series = x * std::fma(x, std::fma(x, 1 / 6.0f, 0.5f), 1.0f);
  return std::fabs(x) < 0.1f ? series : fast_exp2(x * kLog2E) - 1;
}

/// log(1 + x), with a relative error below 3e-5: near 0 by its series.
__device__ inline float fast_log1p(float x) {
  const float series = x * std::fma(x, std::fma(x, std::fma(x, -0.25f, 1 / 3.0f), -0.5f), 1.0f);
  return std::fabs(x) < 0.1f ? series : fast_log2(1 + x) * kLn2;
}

}  // namespace vitrine::cuda
