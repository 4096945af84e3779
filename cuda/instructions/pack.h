// Rounding of two float32 numbers to 16 bits at once, into one word as in the fragments of tensor
// cores.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/float16.h"
#include "cuda/launch.h"

namespace vitrine::cuda {

/// T(low) in the lower half of the word and T(high) in the upper one (cvt.rn.…x2). T is bfloat16 or
/// float16.
template <class T>
__device__ uint32_t pack(float low, float high) {
#if VITRINE_CUDA_EMULATED
  return T(low).bits | uint32_t{T(high).bits} << 16;
#else
  uint32_t word;
  if constexpr (std::is_same_v<T, bfloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#endif
}

}  // namespace vitrine::cuda
