// The stand-in for <cuda_runtime.h>: what the kernels of cuda/ use of CUDA C++, for a C++ compiler.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "cuda/emulator/block.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
// All threads of a block run on one thread of the CPU, so what is static there belongs to the block.
#define __shared__ static thread_local

#define threadIdx (::vitrine::emulator::Block::current().thread())
#define blockIdx (::vitrine::emulator::Block::current().index())
#define blockDim (::vitrine::emulator::Block::current().launch().block)
#define gridDim (::vitrine::emulator::Block::current().launch().grid)
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
T shuffle(unsigned mask, T value, Place place, Source source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  Block& block = Block::current();
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const uint64_t* const values = block.exchange(mask, bits, place);
  T result;
  std::memcpy(&result, &values[source(static_cast<int>(block.lane())) % 32], sizeof(T));
  return result;
}

inline unsigned ballot(unsigned mask, bool predicate, Place place) {
  const uint64_t* const values = Block::current().exchange(mask, predicate, place);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0 && values[lane] != 0) result |= 1u << lane;
  return result;
}

inline void warp_barrier(Place place, unsigned mask = 0xffffffffu) {
  Block::current().exchange(mask, 0, place);
}

template <class... Parameters, class... Arguments>
void launch(const char* kernel_name, dim3 grid, dim3 block, size_t shared_bytes,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  run_grid({kernel_name, grid, block, shared_bytes}, [&] { kernel(arguments...); });
}

}  // namespace vitrine::emulator

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> cell(*address);
  T old = cell.load();
  while (old < value && !cell.compare_exchange_weak(old, value)) {
  }
  return old;
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value);
  return compare;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// The host's side: memory is the CPU's, and every call has finished when it returns.
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorInvalidDevice = 101 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
inline const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory"
         : e == cudaErrorInvalidDevice  ? "invalid device ordinal"
                                        : "no error";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
inline cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* data) { return std::free(data), cudaSuccess; }
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { return *free = *total = 0, cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
