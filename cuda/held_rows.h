// Rows that fit into the registers of a block, so that they are read only once. All of a row is on
// its way from memory at the same time. If one warp can hold a row, a block has eight rows, one per
// warp, and no thread waits at a barrier.
#pragma once

#include "cuda/rows.h"

namespace vitrine::cuda {

/// Vectors of 16 bytes of a row per thread.
inline constexpr int kHeld = 4;

// The most threads of a row. With two such blocks per multiprocessor, a thread has 128 registers.
constexpr unsigned kMostHolders = 256;

/// Threads that hold a row of n elements, `held` vectors each. 0 if this is not possible: the row
/// is too long, or rows do not begin at multiples of 16 bytes.
template <class S, class... Tensors>
unsigned holders_of(int held, int64_t n, const Tensors&... tensors) {
  const auto begins_aligned = [](const Tensor& t) {
    return !t.defined() || reinterpret_cast<uintptr_t>(t.raw()) % kVectorBytes == 0;
  };
  const int64_t each = int64_t{held} * kLanes<S>;
  const int64_t threads = (n + each * kWarp - 1) / (each * kWarp) * kWarp;
  const bool aligned = kLanes<S> == 1 || (n % kLanes<S> == 0 && (begins_aligned(tensors) && ...));
  return aligned && threads <= kMostHolders ? static_cast<unsigned>(threads) : 0;
}

inline dim3 held_block(unsigned holders) { return {holders, holders == kWarp ? kDeep : 1}; }
/// The row of this warp, or of this block.
__device__ inline int64_t held_row() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

/// Calls f(v, i) for each of this thread's kCount vectors v, where i is its first element in a row
/// of n.
template <class S, int kCount, class F>
__device__ void for_each_held(int64_t n, const F& f) {
  constexpr int N = kLanes<S>;
#pragma unroll
  for (int v = 0; v < kCount; ++v) {
    const int i = (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * N;
    if (i < static_cast<int>(n)) f(v, i);
  }
}

/// A thread's elements of its row, which this block or this warp holds. Where the row has no
/// element it is `padding`.
template <class S>
struct HeldElements {
  static constexpr int N = kLanes<S>;
  using T = AccumulatorOf<S>;
  Vector<T, N> at[kHeld];

  __device__ HeldElements(const S* row, int64_t n, T padding) {
    Vector<S, N> read[kHeld];
#pragma unroll
    for (auto& vector : read)
      for (S& x : vector.at) x = S(padding);
    for_each_held<S, kHeld>(n, [&](int v, int i) { read[v] = load<N>(row + i); });
#pragma unroll
    for (int v = 0; v < kHeld; ++v) at[v] = map<N>([](S x) { return static_cast<T>(x); }, read[v]);
  }
  /// x = f(x) for each element, padding included.
  template <class F>
  __device__ void update(const F& f) {
#pragma unroll
    for (auto& vector : at) vector = map<N>(f, vector);
  }
  __device__ void write(S* row, int64_t n) const {
    for_each_held<S, kHeld>(n,
                            [&](int v, int i) { store(row + i, map<N>([](T x) { return S(x); }, at[v])); });
  }
};

}  // namespace vitrine::cuda
