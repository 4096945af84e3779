// Reductions over the threads of a block: a sum, a largest element, and the like.
//
// In each of five rounds, a lane of a warp merges its value with the value of the lane whose number
// differs in one bit. Then all 32 lanes have the result, and shared memory is needed only once,
// between warps. `merge` must be commutative. The order of merging depends only on the size of the
// block, so a sum has the same bits in every run. Atomics would not guarantee this.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/launch.h"

namespace vitrine::cuda {

inline constexpr unsigned kWarp = 32, kAllLanes = 0xffffffffu;

/// Returns the value of the lane whose number differs in the bits of `step`. A struct is sent word
/// by word.
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

/// Merges the values of the 32 threads of a warp, or of each group of `lanes` neighbouring threads.
/// Each of these threads gets the result.
template <class T, class Merge>
__device__ T merge_warp(T mine, Merge merge, int lanes = kWarp) {
  for (int step = lanes / 2; step > 0; step /= 2) mine = merge(mine, lane_xor(mine, step));
  return mine;
}

/// Merges the values of all threads of a one-dimensional block of whole warps. Each thread gets the
/// result.
template <class T, class Merge>
__device__ T merge_block(T mine, Merge merge) {
  __shared__ T of_warp[kWarp];
  mine = merge_warp(mine, merge);
  if (blockDim.x == kWarp) return mine;
  __syncthreads();  // now all threads have read the values of an earlier call
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

/// Rows of a block of kWarp columns and kDeep rows of threads, for results per column: a warp reads
/// neighbouring elements.
inline constexpr unsigned kDeep = 8;

/// Merges the values of the threads in one column of such a block. Only the threads in the first
/// row get the result.
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

/// The largest result of threads_for(). Its kernels have this number as __launch_bounds__, so that
/// the compiler leaves enough registers.
inline constexpr unsigned kMostThreads = 512;

/// Threads for a row of n elements: whole warps, more of them for longer rows.
inline unsigned threads_for(int64_t n) { return n <= 128 ? 32 : n <= 1024 ? 128 : kMostThreads; }

}  // namespace vitrine::cuda
