// The tensor cores' mma.m16n8k16 in the emulator (cuda/instructions/mma.h). The arithmetic is a
// function of mma.cpp, which is never traced, so that the compiler optimizes it.
#pragma once

#include <cstdint>

namespace vitrine::emulator {

/// The registers that the sums of lane (g, t) depend on. A word holds four elements of 16 bits.
struct MmaOperands {
  uint64_t a[2][4];  ///< of the lanes of row g: quarters 0 and 1, then quarters 2 and 3
  uint64_t b[8];     ///< of the lanes of columns 2t and 2t + 1: b0 and b1
};

/// The lane's four sums += its part of a·b, with k in ascending order. T is bfloat16 or float16.
template <class T>
void multiply_accumulate(float (&sum)[4], const MmaOperands& x);

}  // namespace vitrine::emulator
