// Asynchronous copies from global to shared memory (cp.async, from compute capability 8.0 on). The
// copies do not use registers, and the thread continues until it needs the data.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/launch.h"

namespace vitrine::cuda {

/// The copies of one thread, which wait in groups.
///
///   copies.copy16(to, from, 16);  copies.commit();  // a group
///   copies.wait<1>();  // all groups but the last have arrived, for this thread
///   __syncthreads();   // and now for all
class AsyncCopies {
 public:
  /// 16 bytes, of which the first `bytes` come from global memory and the others are 0. Both
  /// addresses are multiples of 16.
  __device__ void copy16(void* shared, const void* global, int bytes);
  /// All copies since the last commit form a group.
  __device__ void commit();
  /// Returns when at most the last `kOpen` groups have not arrived yet.
  template <int kOpen>
  __device__ void wait();

#if VITRINE_CUDA_EMULATED
 private:
  // The data arrive at wait(), not before: until then `shared` holds NaN.
  struct Copy {
    void* shared;
    const void* global;
    int bytes, group;
  };
  static constexpr int kMost = 512;
  Copy copies_[kMost];
  int count_ = 0, group_ = 0;
#endif
};

#if VITRINE_CUDA_EMULATED
VITRINE_UNTRACED inline void AsyncCopies::copy16(void* shared, const void* global, int bytes) {
  check(count_ < kMost, "AsyncCopies: more than {} copies are under way", kMost);
  check(reinterpret_cast<uintptr_t>(shared) % 16 == 0 && reinterpret_cast<uintptr_t>(global) % 16 == 0,
        "AsyncCopies: addresses that are no multiples of 16");
  const void* const pc = __builtin_return_address(0);
  if (bytes != 0) emulator::note_access(global, static_cast<size_t>(bytes), emulator::Access::read, pc, 2);
  emulator::note_access(shared, 16, emulator::Access::write, pc);
  std::memset(shared, 0xFF, 16);
  copies_[count_++] = {shared, global, bytes, group_};
}

VITRINE_UNTRACED inline void AsyncCopies::commit() { ++group_; }

template <int kOpen>
VITRINE_UNTRACED void AsyncCopies::wait() {
  int left = 0;
  for (int i = 0; i < count_; ++i) {
    const Copy c = copies_[i];
    if (c.group >= group_ - kOpen) {
      copies_[left++] = c;
      continue;
    }
    std::memset(c.shared, 0, 16);
    std::memcpy(c.shared, c.global, static_cast<size_t>(c.bytes));
  }
  count_ = left;
}
#else
__device__ inline void AsyncCopies::copy16(void* shared, const void* global, int bytes) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(bytes)
               : "memory");
}

__device__ inline void AsyncCopies::commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

template <int kOpen>
__device__ void AsyncCopies::wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kOpen) : "memory");
}
#endif

}  // namespace vitrine::cuda
