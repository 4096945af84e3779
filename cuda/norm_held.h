// Norms of rows that the threads of a block hold in registers (cuda/held_rows.h). In the backward a
// thread also holds two sums per column for each of its elements.
#pragma once

#include "core/math.h"
#include "cuda/held_rows.h"

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

/// Vectors of a row per thread in the backward: as many as fit into 128 registers together with the
/// float32 sums, which are twice as wide as 16-bit elements.
template <class S>
inline constexpr int kHeldBackward = sizeof(S) == 2 ? 2 : 4;

/// y = norm(x), or y = norm(sum) with sum = x + residual, if `residual` is not null.
template <class S>
__global__ void __launch_bounds__(kMostHolders, 2)
    held_norm_kernel(S* sum, const S* x, const S* residual, NormForward<S> norm) {
  using T = AccumulatorOf<S>;
  constexpr int N = kLanes<S>;
  const int64_t row = held_row(), n = norm.n, begin = row * n;
  if (row >= norm.rows) return;  // a whole warp, which shares no barrier with other warps
  Vector<S, N> held[kHeld];
  const auto total = [&](const auto& f) {
    T mine = 0;
    for_each_held<S, kHeld>(n, [&](int v, int) {
#pragma unroll
      for (int k = 0; k < N; ++k) mine += f(static_cast<T>(held[v].at[k]));
    });
    return sum_block(mine);
  };
  for_each_held<S, kHeld>(n, [&](int v, int i) {
    held[v] = load<N>(x + begin + i);
    if (residual == nullptr) return;
    const auto add = [](S x, S residual) { return S(static_cast<T>(x) + static_cast<T>(residual)); };
    held[v] = map<N>(add, held[v], load<N>(residual + begin + i));
    store(sum + begin + i, held[v]);
  });
  const T m = norm.mean == nullptr ? T(0) : total([](T x) { return x; }) / static_cast<T>(n);
  const T variance = total([&](T x) { return (x - m) * (x - m); }) / static_cast<T>(n);
  const T r = T(1) / math::sqrt(variance + norm.eps);
  for_each_held<S, kHeld>(n, [&](int v, int i) {
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

/// One row of dy and x, as far as a thread holds it. The vectors are kept as words: a copy of
/// 16-bit elements would wait for them.
template <class S>
struct HeldRow {
  static constexpr int N = kLanes<S>;
  using Words = Vector<unsigned, sizeof(Vector<S, N>) / sizeof(unsigned)>;
  Words dy[kHeldBackward<S>], x[kHeldBackward<S>];

  static __device__ Words words(const S* from) { return std::bit_cast<Words>(load<N>(from)); }
  __device__ void read(const NormBackward<S>& b, int row) {
    for_each_held<S, kHeldBackward<S>>(
        b.n, [&](int v, int i) { dy[v] = words(b.dy + row * b.n + i), x[v] = words(b.x + row * b.n + i); });
  }
  static __device__ Vector<AccumulatorOf<S>, N> numbers(const Words& words) {
    return map<N>([](S x) { return static_cast<AccumulatorOf<S>>(x); }, std::bit_cast<Vector<S, N>>(words));
  }
};

/// dx as in norm_backward_kernel, with `height` rows per block. Also writes the block's Σ dy·x̂ and
/// Σ dy per column (null if not requested); a sum over blocks follows. The next row is on its way
/// from memory while the threads compute with this one.
template <class S>
__global__ void __launch_bounds__(kMostHolders, 2)
    held_norm_backward_kernel(S* dx, const S* dsum, AccumulatorOf<S>* dweights, AccumulatorOf<S>* dbiases,
                              NormBackward<S> b, int height) {
  using T = AccumulatorOf<S>;
  constexpr int N = kLanes<S>, kCount = kHeldBackward<S>;
  Vector<T, N> dweight[kCount] = {}, dbias[kCount] = {};
  const int64_t n = b.n;
  const int first = static_cast<int>(blockIdx.x) * height, rows = static_cast<int>(b.rows);
  const int end = rows - first < height ? rows : first + height, step = static_cast<int>(blockDim.y);
  int row = first + static_cast<int>(threadIdx.y);
  HeldRow<S> held, next;
  if (row < end) held.read(b, row);
  for (; row < end; row += step, held = next) {
    if (row + step < end) next.read(b, row + step);
    const auto direct = [&](int i) {
      return dsum == nullptr ? typename HeldRow<S>::Words{} : held.words(dsum + row * n + i);
    };
    constexpr bool kEarly = sizeof(S) == 2;  // for float32 there are no registers
    typename HeldRow<S>::Words added[kCount] = {};
    if constexpr (kEarly) for_each_held<S, kCount>(n, [&](int v, int i) { added[v] = direct(i); });
    const T m = b.mean_of(row), r = b.rstd[row];
    NormSums<T> sums{};
    for_each_held<S, kCount>(n, [&](int v, int i) {
      const auto weight = load<N>(b.weight + i), dy = held.numbers(held.dy[v]), x = held.numbers(held.x[v]);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const T g = dy.at[k] * weight.at[k], normalized = (x.at[k] - m) * r;
        sums.along = std::fma(g, normalized, sums.along);
        sums.level += g;
        dweight[v].at[k] = std::fma(dy.at[k], normalized, dweight[v].at[k]);
        dbias[v].at[k] += dy.at[k];
      }
    });
    sums = sums.averages(n, b.mean != nullptr);
    for_each_held<S, kCount>(n, [&](int v, int i) {
      const auto value = [&](T dy, T x, T weight, T more) {
        const T normalized = (x - m) * r, g = std::fma(dy, weight, -sums.level);
        return S(std::fma(r, std::fma(-sums.along, normalized, g), more));
      };
      store(dx + row * n + i, map<N>(value, held.numbers(held.dy[v]), held.numbers(held.x[v]),
                                     load<N>(b.weight + i), held.numbers(kEarly ? added[v] : direct(i))));
    });
  }
  if (dweights == nullptr && dbiases == nullptr) return;
  if (blockDim.y > 1) {
    const auto add = [](const Vector<T, N>& a, const Vector<T, N>& b) {
      return map<N>([](T x, T y) { return x + y; }, a, b);
    };
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      dweight[v] = merge_column(dweight[v], add);
      dbias[v] = merge_column(dbias[v], add);
    }
    if (threadIdx.y != 0) return;
  }
  for_each_held<S, kCount>(n, [&](int v, int i) {
    if (dweights != nullptr) store(dweights + blockIdx.x * n + i, dweight[v]);
    if (dbiases != nullptr) store(dbiases + blockIdx.x * n + i, dbias[v]);
  });
}

/// Rows of a block of so many threads. An H200 runs 132 · 2 · 256 threads of this kernel at a time;
/// this many are busy, unless a block would then have only a few rows, or so many that the last
/// blocks run alone.
inline int held_height(int64_t rows, unsigned threads) {
  const int64_t blocks = 132 * 2 * kMostHolders / threads, height = (rows + blocks - 1) / blocks;
  return height < kDeep ? kDeep : height > 64 ? 64 : static_cast<int>(height);
}

}  // namespace vitrine::cuda
