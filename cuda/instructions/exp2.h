// The special function unit's power of 2.
#pragma once

#include <cfloat>
#include <cmath>

#include "cuda/launch.h"

namespace vitrine::cuda {

/// 2^x within 2 units of rounding, 0 where that is no normal number (ex2.approx.ftz): one instruction, where std::exp2 takes
/// five, to reach denormal results.
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

}  // namespace vitrine::cuda
