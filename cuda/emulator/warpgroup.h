// The twin of Hopper's tensor cores (cuda/instructions/wgmma.h): products are made when they are waited for, and not before, and
// shared memory must not change until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vitrine::emulator {

/// sums [64, 256] += x [64, 16] · y [16, 256].
struct WarpgroupProduct {
  uint64_t x, y;  // descriptors
  bool x_along_k, y_along_k;
  float (*value)(uint16_t bits);
  int group = 0;
  uint64_t content = 0;  // a hash of x and y
};

/// One thread's. It takes no memory: a thread that an error stops half-way never gives any back.
class WarpgroupProducts {
 public:
  static constexpr int kSums = 128;
  /// The thread's sums are NaN until finish().
  void begin(float* sums);
  void add(WarpgroupProduct product);
  void commit() { ++group_; }
  /// `pc` says whose accesses these are.
  void wait(int open, const void* pc);
  void finish(float* sums) const;

 private:
  std::array<WarpgroupProduct, 32> under_way_;
  size_t count_ = 0;
  int group_ = 0;
  float sums_[kSums] = {};
};

}  // namespace vitrine::emulator
