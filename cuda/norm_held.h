// Norms of rows that fit into the registers of a block, so that x and dy are read only once. A
// thread holds kHeld vectors of 16 bytes of a row. In the backward it also holds two sums per
// column for each of their elements. If one warp can hold a row, a block has eight rows, one per
// warp, and no thread waits at a barrier.
#pragma once

#include "core/math.h"
#include "cuda/rows.h"

namespace vitrine::cuda {

/// What every forward writes, and what it reads in addition to x. `mean` and `bias` are null for
/// rms_norm, where they count as 0.
template <class S>
struct NormForward {
  using T = AccumulatorOf<S>;

  S* y;
  T *mean, *rstd;
  const T *weight, *bias;
  int64_t rows, n;
  T eps;

  __device__ void write_statistics(int64_t row, T m, T r) const {
    if (threadIdx.x != 0) return;
    if (mean != nullptr) mean[row] = m;
    rstd[row] = r;
  }
};

/// What both backwards read. `mean` is null for rms_norm, where it counts as 0.
template <class S>
struct NormBackward {
  const S *dy, *x;
  const AccumulatorOf<S>*mean, *rstd, *weight;
  int64_t rows, n;

  __device__ AccumulatorOf<S> mean_of(int64_t row) const {
    return mean == nullptr ? AccumulatorOf<S>(0) : mean[row];
  }
};

/// Σ g·x̂ and Σ g for g = dy·weight.
template <class T>
struct NormSums {
  T along, level;

  /// The averages of the two sums over a row of n elements, for each thread of the row. The second
  /// average is 0 unless a mean was subtracted.
  __device__ NormSums averages(int64_t n, bool has_mean) const {
    const NormSums all = merge_block(*this, [](NormSums a, NormSums b) {
      return NormSums{a.along + b.along, a.level + b.level};
    });
    return {all.along / static_cast<T>(n), has_mean ? all.level / static_cast<T>(n) : T(0)};
  }
};

/// Vectors of a row per thread: as many as fit into 128 registers together with the float32 sums,
/// which are twice as wide as 16-bit elements.
template <class S>
inline constexpr int kHeld = sizeof(S) == 2 ? 2 : 4;

// The most threads of a row. With two such blocks per multiprocessor, a thread has 128 registers.
constexpr unsigned kMostHolders = 256;

/// Threads that hold a row of n elements. 0 if this is not possible: the row is too long, or rows
/// do not begin at multiples of 16 bytes.
template <class S, class... Tensors>
unsigned holders_of(int64_t n, const Tensors&... tensors) {
  const auto begins_aligned = [](const Tensor& t) {
    return !t.defined() || reinterpret_cast<uintptr_t>(t.raw()) % kVectorBytes == 0;
  };
  constexpr int64_t kEach = int64_t{kHeld<S>} * kLanes<S>;
  const int64_t threads = (n + kEach * kWarp - 1) / (kEach * kWarp) * kWarp;
  const bool aligned = kLanes<S> == 1 || (n % kLanes<S> == 0 && (begins_aligned(tensors) && ...));
  return aligned && threads <= kMostHolders ? static_cast<unsigned>(threads) : 0;
}

inline dim3 held_block(unsigned holders) { return {holders, holders == kWarp ? kDeep : 1}; }

/// Calls f(v, i) for each vector v of this thread, where i is its first element in a row of n.
template <class S, class F>
__device__ void for_each_held(int64_t n, const F& f) {
  constexpr int N = kLanes<S>;
#pragma unroll
  for (int v = 0; v < kHeld<S>; ++v) {
    const int i = (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * N;
    if (i < static_cast<int>(n)) f(v, i);
  }
}

/// y = norm(x), or y = norm(sum) with sum = x + residual, if `residual` is not null.
template <class S>
__global__ void __launch_bounds__(kMostHolders, 2)
    held_norm_kernel(S* sum, const S* x, const S* residual, NormForward<S> norm) {
  using T = AccumulatorOf<S>;
  constexpr int N = kLanes<S>;
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, n = norm.n, begin = row * n;
  if (row >= norm.rows) return;  // a whole warp, which shares no barrier with other warps
  Vector<S, N> held[kHeld<S>];
  const auto total = [&](const auto& f) {
    T mine = 0;
    for_each_held<S>(n, [&](int v, int) {
#pragma unroll
      for (int k = 0; k < N; ++k) mine += f(static_cast<T>(held[v].at[k]));
    });
    return sum_block(mine);
  };
  for_each_held<S>(n, [&](int v, int i) {
    held[v] = load<N>(x + begin + i);
    if (residual == nullptr) return;
    const auto add = [](S x, S residual) { return S(static_cast<T>(x) + static_cast<T>(residual)); };
    held[v] = map<N>(add, held[v], load<N>(residual + begin + i));
    store(sum + begin + i, held[v]);
  });
  const T m = norm.mean == nullptr ? T(0) : total([](T x) { return x; }) / static_cast<T>(n);
  const T variance = total([&](T x) { return (x - m) * (x - m); }) / static_cast<T>(n);
  const T r = T(1) / math::sqrt(variance + norm.eps);
  for_each_held<S>(n, [&](int v, int i) {
    const auto weight = load<N>(norm.weight + i);
    Vector<T, N> bias = {};
    if (norm.bias != nullptr) bias = load<N>(norm.bias + i);
    const auto value = [&](S x, T weight, T bias) {
      const T scaled = (static_cast<T>(x) - m) * r * weight;
      return S(norm.bias == nullptr ? scaled : scaled + bias);
    };
    store(norm.y + begin + i, map<N>(value, held[v], weight, bias));
  });
  norm.write_statistics(row, m, r);
}

/// dx as in norm_backward_kernel, with `height` rows per block. Also writes the block's Σ dy·x̂ and
/// Σ dy per column (null if not requested); a sum over blocks follows.
template <class S>
__global__ void __launch_bounds__(kMostHolders, 2)
    held_norm_backward_kernel(S* dx, const S* dsum, AccumulatorOf<S>* dweights, AccumulatorOf<S>* dbiases,
                              NormBackward<S> b, int height) {
  using T = AccumulatorOf<S>;
  constexpr int N = kLanes<S>;
  Vector<T, N> dweight[kHeld<S>] = {}, dbias[kHeld<S>] = {};
  const int64_t n = b.n;
  const int first = static_cast<int>(blockIdx.x) * height, rows = static_cast<int>(b.rows);
  const int end = rows - first < height ? rows : first + height;
  for (int row = first + static_cast<int>(threadIdx.y); row < end; row += static_cast<int>(blockDim.y)) {
    const S *const dy_row = b.dy + row * n, *const x_row = b.x + row * n;
    const T m = b.mean_of(row), r = b.rstd[row];
    Vector<S, N> dy[kHeld<S>], x[kHeld<S>];
    NormSums<T> sums{};
    for_each_held<S>(n, [&](int v, int i) {
      dy[v] = load<N>(dy_row + i), x[v] = load<N>(x_row + i);
      const auto weight = load<N>(b.weight + i);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const T d = static_cast<T>(dy[v].at[k]), normalized = (static_cast<T>(x[v].at[k]) - m) * r;
        sums.along += d * weight.at[k] * normalized;
        sums.level += d * weight.at[k];
        dweight[v].at[k] += d * normalized;
        dbias[v].at[k] += d;
      }
    });
    sums = sums.averages(n, b.mean != nullptr);
    for_each_held<S>(n, [&](int v, int i) {
      Vector<S, N> added = {};
      if (dsum != nullptr) added = load<N>(dsum + row * n + i);
      const auto value = [&](S dy, S x, T weight, S more) {
        const T normalized = (static_cast<T>(x) - m) * r;
        const T d = r * (static_cast<T>(dy) * weight - sums.along * normalized - sums.level);
        return S(dsum == nullptr ? d : d + static_cast<T>(more));
      };
      store(dx + row * n + i, map<N>(value, dy[v], x[v], load<N>(b.weight + i), added));
    });
  }
  if (dweights == nullptr && dbiases == nullptr) return;
  if (blockDim.y > 1) {
    const auto add = [](const Vector<T, N>& a, const Vector<T, N>& b) {
      return map<N>([](T x, T y) { return x + y; }, a, b);
    };
#pragma unroll
    for (int v = 0; v < kHeld<S>; ++v) {
      dweight[v] = merge_column(dweight[v], add);
      dbias[v] = merge_column(dbias[v], add);
    }
    if (threadIdx.y != 0) return;
  }
  for_each_held<S>(n, [&](int v, int i) {
    if (dweights != nullptr) store(dweights + blockIdx.x * n + i, dweight[v]);
    if (dbiases != nullptr) store(dbiases + blockIdx.x * n + i, dbias[v]);
  });
}

/// Rows of a block: so many that the sums of blocks cost little compared with the rows, and so few
/// that there are enough blocks to keep a GPU busy.
inline int held_height(int64_t rows) {
  const int64_t height = (rows + 255) / 256;
  return height < kDeep ? kDeep : height > 64 ? 64 : static_cast<int>(height);
}

}  // namespace vitrine::cuda
