// Hopper's tensor cores in the emulator (cuda/instructions/wgmma.h). Products are computed at the
// wait, not before, and shared memory must not change until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/emulator/block.h"

namespace vitrine::emulator {

/// When all threads of the warpgroup have called this, each has `count` registers. take_registers
/// lets other threads run until they have released enough.
void give_registers(unsigned count, Place place);
void take_registers(unsigned count, Place place);

/// sums [64, N] = x [64, 16] · y [16, N] (+ sums with `add`). If x is in registers, each thread
/// holds its fragment.
struct WarpgroupProduct {
  uint64_t x = 0, y = 0;  // descriptors
  bool x_in_registers = false, x_along_k = true, y_along_k = true, add = true;
  float (*value)(uint16_t bits) = nullptr;
  uint32_t fragment[4] = {};
  int held = 0, group = 0;
  uint64_t content = 0;  // a hash of x and y
};

/// The products of one thread. It allocates no memory, because a thread that an error stops would
/// never free it.
class WarpgroupProducts {
 public:
  /// The thread's sums are NaN until finish().
  void begin(float* sums, int count);
  void fence() { fenced_ = true; }
  /// An error without a fence since begin() or wait().
  void add(const float* sums, WarpgroupProduct product);
  void commit() { ++group_; }
  /// `pc` says whose accesses these are.
  void wait(int open, const void* pc);
  void finish(float* sums);

 private:
  static constexpr int kMostSums = 128;
  struct Held {  // sums that belong to the tensor cores
    const float* of = nullptr;
    int count = 0;
    float values[kMostSums];
  };
  Held& held(const float* of);

  std::array<WarpgroupProduct, 32> under_way_;
  std::array<Held, 4> held_;
  size_t count_ = 0;
  int group_ = 0;
  bool fenced_ = false;
};

}  // namespace vitrine::emulator
