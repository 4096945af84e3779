// Twins of Hopper's mbarrier and copy engine (cuda/instructions/mbarrier.h, tma.h). As in
// AsyncCopies, a tile arrives when it is waited for, and not before: until then its place holds
// NaN.
#pragma once

#include <cstdint>

#include "cuda/emulator/block.h"

namespace vitrine::emulator {

/// The copy engine does not know the barrier before ThreadBlock::fence_mbarriers().
void init_mbarrier(uint64_t& state, unsigned arrivals);
void arrive(uint64_t& state, unsigned bytes);
/// Lets other threads run until the phase of that parity is complete.
void wait(uint64_t& state, unsigned parity, Place place);

/// In place of CUtensorMap: matrices of 16-bit elements, one or [batches, heads] of them.
struct TensorMap {
  const char* data;
  int64_t length, lines, stride;  // in elements
  int64_t heads = 1, batches = 1, head_stride = 0, batch_stride = 0;

  TensorMap matrix(int h, int b) const;
};

/// A box of 64 × 64 elements on its way.
struct BoxCopy {
  TensorMap map;
  char* shared;
  int64_t at, line;
  uint64_t* barrier;
};

/// `pc` says whose accesses these are.
void load_box(const BoxCopy& copy, const void* pc);

/// Where the copy engine puts a byte of shared memory, and tensor cores find it, under the swizzle
/// of 128 bytes: bits 4 to 6 of the address change by exclusive or with bits 7 to 9.
inline char* swizzled(char* shared) {
  const auto address = reinterpret_cast<uintptr_t>(shared);
  return shared + static_cast<ptrdiff_t>((address ^ (address >> 7 & 7) << 4) - address);
}

}  // namespace vitrine::emulator
