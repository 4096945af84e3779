// Hopper's mbarrier and copy engine in the emulator (cuda/instructions/mbarrier.h, tma.h). As in
// AsyncCopies, a tile arrives at the wait, not before: until then its place holds NaN.
#pragma once

#include <cstdint>

#include "cuda/emulator/block.h"

namespace vitrine::emulator {

/// The copy engine must not use the barrier before ThreadBlock::fence_mbarriers().
void init_mbarrier(uint64_t& state, unsigned arrivals);
void arrive(uint64_t& state, unsigned bytes);
/// Lets other threads run until the phase of that parity is complete.
void wait(uint64_t& state, unsigned parity, Place place);

/// In place of CUtensorMap: one matrix, or [batches, heads] matrices, of 16-bit elements.
struct TensorMap {
  const char* data;
  int64_t length, lines, stride;  // in elements
  int64_t heads = 1, batches = 1, head_stride = 0, batch_stride = 0;

  TensorMap matrix(int h, int b) const;
};

/// A box of 64 × 64 elements in flight.
struct BoxCopy {
  TensorMap map;
  char* shared;
  int64_t at, line;
  uint64_t* barrier;
};

/// `pc` is the instruction that the accesses belong to.
void load_box(const BoxCopy& copy, const void* pc);

/// The address of a byte of a box under the swizzle of 128 bytes, for the copy engine and tensor
/// cores: bits 4 to 6 of the address are combined with bits 7 to 9 by exclusive or.
inline char* swizzled(char* shared) {
  const auto address = reinterpret_cast<uintptr_t>(shared);
  return shared + static_cast<ptrdiff_t>((address ^ (address >> 7 & 7) << 4) - address);
}

}  // namespace vitrine::emulator
