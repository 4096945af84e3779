// What the threads of a block find out together: a sum, a largest element, and the like.
//
// In five rounds each lane of a warp merges its value with that of the lane whose number differs in
// one bit; then all 32 know the whole, and shared memory is needed only once, between warps.
// `merge` must not mind the order of its two arguments. The order of merging depends on the size of
// the block alone, so a sum has the same bits in every run; atomics would not give that.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/launch.h"

namespace vitrine::cuda {

inline constexpr unsigned kWarp = 32, kAllLanes = 0xffffffffu;

/// The value of the lane whose number differs in the bits of `step`. A struct travels as words.
template <class T>
__device__ T lane_xor(const T& value, int step) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_xor_sync(kAllLanes, value, step);
  } else {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(unsigned) == 0);
    unsigned words[sizeof(T) / sizeof(unsigned)];
    std::memcpy(words, &value, sizeof(T));
    for (unsigned& word : words) word = __shfl_xor_sync(kAllLanes, word, step);
    T other;
    std::memcpy(&other, words, sizeof(T));
    return other;
  }
}

/// Of the 32 threads of a warp, or of each group of `lanes` neighbours, known to each of them.
template <class T, class Merge>
__device__ T merge_warp(T mine, Merge merge, int lanes = kWarp) {
  for (int step = lanes / 2; step > 0; step /= 2) mine = merge(mine, lane_xor(mine, step));
  return mine;
}

/// Of all threads of a block of one axis and whole warps, known to each of them.
template <class T, class Merge>
__device__ T merge_block(T mine, Merge merge) {
  __shared__ T of_warp[kWarp];
  mine = merge_warp(mine, merge);
  if (blockDim.x == kWarp) return mine;
  __syncthreads();  // what an earlier call left there has been read
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  T all = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) all = merge(all, of_warp[warp]);
  return all;
}

template <class T>
__device__ T sum_block(T mine) {
  return merge_block(mine, [](T x, T y) { return x + y; });
}

/// Blocks of kWarp columns and kDeep rows of threads, for results per column: a warp reads
/// neighbours in memory.
inline constexpr unsigned kDeep = 8;

/// Of the threads of one column of such a block; the result is that of the threads in its first
/// row.
template <class T, class Merge>
__device__ T merge_column(T mine, Merge merge) {
  __shared__ T of_thread[kDeep][kWarp];
  __syncthreads();  // as above
  of_thread[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y == 0)
    for (unsigned row = 1; row < kDeep; ++row) mine = merge(mine, of_thread[row][threadIdx.x]);
  return mine;
}

/// The most that threads_for() gives: __launch_bounds__ of its kernels, for which the compiler then
/// leaves enough registers.
inline constexpr unsigned kMostThreads = 512;

/// Threads for a row of n elements: whole warps, more of them for longer rows.
inline unsigned threads_for(int64_t n) { return n <= 128 ? 32 : n <= 1024 ? 128 : kMostThreads; }

}  // namespace vitrine::cuda
