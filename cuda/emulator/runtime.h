// The stand-in for <cuda_runtime.h>: what the kernels of cuda/ use of CUDA C++, for a C++ compiler.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include "cuda/emulator/block.h"
#include "cuda/emulator/limits.h"
#include "cuda/emulator/memory.h"
#include "cuda/emulator/streams.h"

// Functions of the emulator that are compiled into kernels, and whose own accesses are not the kernel's (trace.h).
#define VITRINE_UNTRACED __attribute__((no_sanitize_thread))
#ifndef VITRINE_TRACED
#define VITRINE_TRACED false
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __grid_constant__
// All threads of a block run on one thread of the CPU, so what is static there belongs to the block.
#define __shared__ static thread_local

#define threadIdx (::vitrine::emulator::thread_index())
#define blockIdx (::vitrine::emulator::block_index())
#define blockDim (::vitrine::emulator::block_size())
#define gridDim (::vitrine::emulator::grid_size())
#define __syncthreads() (::vitrine::emulator::Block::current().synchronize({__FILE__, __LINE__}))
#define __syncwarp(...) (::vitrine::emulator::warp_barrier({__FILE__, __LINE__} __VA_OPT__(, ) __VA_ARGS__))
#define __shfl_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, {__FILE__, __LINE__}, ::vitrine::emulator::From{__VA_ARGS__}))
#define __shfl_xor_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, {__FILE__, __LINE__}, ::vitrine::emulator::Xor{__VA_ARGS__}))
#define __shfl_down_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, {__FILE__, __LINE__}, ::vitrine::emulator::Down{__VA_ARGS__}))
#define __shfl_up_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, {__FILE__, __LINE__}, ::vitrine::emulator::Up{__VA_ARGS__}))
#define __ballot_sync(mask, predicate) (::vitrine::emulator::ballot(mask, predicate, {__FILE__, __LINE__}))
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, !(predicate)) == 0)

inline size_t __cvta_generic_to_shared(const void* shared) {
  return vitrine::emulator::Block::current().shared_address(shared);
}

using dim3 = vitrine::emulator::Size3;
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace vitrine::emulator {

/// The lane from which a shuffle reads; lanes are cut into groups of `width`, and a lane outside its group is itself.
struct From {
  int source, width = 32;
  int operator()(int lane) const { return lane / width * width + source % width; }
};
struct Xor {
  int mask, width = 32;
  int operator()(int lane) const { return (lane ^ mask) / width > lane / width ? lane : lane ^ mask; }
};
struct Down {
  unsigned delta;
  int width = 32;
  int operator()(int lane) const {
    const int source = lane + static_cast<int>(delta);
    return source / width == lane / width ? source : lane;
  }
};
struct Up {
  unsigned delta;
  int width = 32;
  int operator()(int lane) const {
    const int source = lane - static_cast<int>(delta);
    return source >= lane / width * width ? source : lane;
  }
};

template <class T, class Source>
VITRINE_UNTRACED T shuffle(unsigned mask, T value, Place place, Source source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  Block& block = Block::current();
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const uint64_t* const values = block.exchange(mask, bits, place);
  T result;
  std::memcpy(&result, &values[source(static_cast<int>(block.lane())) % 32], sizeof(T));
  return result;
}

VITRINE_UNTRACED inline unsigned ballot(unsigned mask, bool predicate, Place place) {
  const uint64_t* const values = Block::current().exchange(mask, predicate, place);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0 && values[lane] != 0) result |= 1u << lane;
  return result;
}

inline void warp_barrier(Place place, unsigned mask = 0xffffffffu) {
  Block::current().exchange(mask, 0, place, /*orders_memory=*/true);
}

/// The code of a kernel, whose accesses are told while this lives.
class InKernel {
 public:
  InKernel() { Block::current().enter_kernel(true); }
  ~InKernel() { Block::current().enter_kernel(false); }
};

template <class... Parameters, class... Arguments>
void launch(const char* kernel_name, bool traced, dim3 grid, dim3 block, size_t shared_bytes, Stream* stream,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  const Launch launch{without_parentheses(kernel_name),     grid, block, shared_bytes, traced,
                      reinterpret_cast<const void*>(kernel)};
  check_launch(launch);
  enqueue(stream, [=] {
    run_grid(launch, [&]() VITRINE_UNTRACED {
      const InKernel scope;
      kernel(arguments...);
    });
  });
}

}  // namespace vitrine::emulator

// Not inlined, so that the trace is told the kernel's line.
#define VITRINE_ATOMIC \
  template <class T>   \
  __attribute__((noinline)) VITRINE_UNTRACED T
#define VITRINE_NOTE_ATOMIC(address)                                                                     \
  ::vitrine::emulator::note_access(address, sizeof(*address), ::vitrine::emulator::Access::atomic_write, \
                                   __builtin_return_address(0))
VITRINE_ATOMIC atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  VITRINE_NOTE_ATOMIC(address);
  __atomic_compare_exchange(address, &compare, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}
VITRINE_ATOMIC atomicExch(T* address, std::type_identity_t<T> value) {
  VITRINE_NOTE_ATOMIC(address);
  T old;
  __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);
  return old;
}
VITRINE_ATOMIC atomicAdd(T* address, std::type_identity_t<T> value) {
  VITRINE_NOTE_ATOMIC(address);
  T old, sum;
  __atomic_load(address, &old, __ATOMIC_SEQ_CST);
  do {
    sum = old + value;
  } while (!__atomic_compare_exchange(address, &old, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
VITRINE_ATOMIC atomicMax(T* address, std::type_identity_t<T> value) {
  VITRINE_NOTE_ATOMIC(address);
  T old;
  __atomic_load(address, &old, __ATOMIC_SEQ_CST);
  while (old < value &&
         !__atomic_compare_exchange(address, &old, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}
#undef VITRINE_ATOMIC
#undef VITRINE_NOTE_ATOMIC
inline void __threadfence() { vitrine::emulator::fence(); }
inline void __threadfence_system() { vitrine::emulator::fence(); }

#include "cuda/emulator/host.h"
