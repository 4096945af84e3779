// LASER's read of a tile: o = c + log(δ + Σ a·F) with F = e^(v − c) − δ in the place of v (ops/cpu/attention_rows.h says which
// anchor c and which δ a channel has). The anchor follows the range of the values that the tile's queries have seen so far, so
// that the forward reads the values once; what was summed moves along by rank one: with f = e^(c − c′)
//
//   Σ p·F′ = f·Σ p·F + g·Σ p,   g = f − 1, f or 0 where (δ, δ′) is (1, 1), (1, 0) or (0, 0).
//
// F and the cotangents H are float32 for 16-bit tensors, which float16 could not hold.
#pragma once

#include "cuda/attention_tile.h"

namespace vitrine::cuda {

template <class T>
struct Anchor {
  T c = 0, delta = 1;

  /// For values from low to high; low > high where there are none.
  __device__ static Anchor of(T low, T high) {
    constexpr T kNear = 2;
    const T range = high - low;
    if (low > high) return {};
    if (range <= kNear) return {(low + high) * T(0.5), T(1)};
    if (range <= kFar) return {low, T(1)};
    return {high - kFar, T(0)};
  }
  /// F of v. A value above kFar is one that no query of the tile sees: it has weight 0, and must stay finite.
  __device__ T value(T v) const {
    const T x = math::min(v - c, kFar);
    return delta == T(0) ? math::exp(x) : math::expm1(x);
  }
  /// c + log(δ + sum).
  __device__ T read(T sum) const { return c + (delta == T(0) ? math::log(sum) : math::log1p(sum)); }
  /// Whether values of n keys are too far apart for such a sum to be trusted: it is then read exactly, and in place of the sum
  /// o − c is kept, which is negative.
  __device__ bool out_of_range(T sum, int n) const {
    const T least = static_cast<T>(n) * T(1.67e-5);  // e⁻¹¹
    return delta == T(0) && !(sum >= (least < T(0.5) ? least : T(0.5)));
  }
  __device__ bool was_read_exactly(T sum) const { return delta == T(0) && sum < T(0); }

  static constexpr T kFar = 60;
};

/// The channels' anchors and ranges, in shared memory, each channel moved by one thread.
template <class T>
struct LaserChannels {
  int channels;
  T *low, *high, *c, *delta, *f, *g;
  T* seen;  // of the 32 keys at hand: whether any query of the tile sees it

  VITRINE_HD LaserChannels(Arena<T>& arena, int channels)
      : channels(channels),
        low(arena.take(channels)),
        high(arena.take(channels)),
        c(arena.take(channels)),
        delta(arena.take(channels)),
        f(arena.take(channels)),
        g(arena.take(channels)),
        seen(arena.take(kPieceColumns)) {}

  __device__ Anchor<T> anchor(int d) const { return {c[d], delta[d]}; }

  __device__ void start() const {
    for (int d = threadIdx.x; d < channels; d += blockDim.x) {
      low[d] = static_cast<T>(INFINITY), high[d] = -low[d];
      c[d] = 0, delta[d] = 1;
    }
  }

  /// Which keys from j on queries [begin, end) see; a barrier has to follow.
  __device__ void look(const Scores<T>& scores, int begin, int end, int j) const {
    if (threadIdx.x >= kPieceColumns) return;
    const int key = j + static_cast<int>(threadIdx.x);
    bool any = key >= scores.first_key(begin) && key < scores.last_key(end - 1);
    if (any && scores.allowed.data != nullptr) {
      any = false;
      for (int i = begin; i < end && !any; ++i) any = scores.sees(i, key);
    }
    seen[threadIdx.x] = any ? T(1) : T(0);
  }

  /// Widens the ranges by the values that are seen, moves the anchors, and says by f and g what becomes of the sums.
  __device__ void advance(const Tile<T>& values) const {
    for (int d = threadIdx.x; d < channels; d += blockDim.x) {
      const bool first = low[d] > high[d];
      for (int r = 0; r < values.rows; ++r)
        if (seen[r] != T(0)) {
          low[d] = math::min(low[d], values.row(r)[d]);
          high[d] = math::max(high[d], values.row(r)[d]);
        }
      const Anchor<T> before = anchor(d), now = Anchor<T>::of(low[d], high[d]);
      const T by = before.c - now.c;
      f[d] = first ? T(0) : math::exp(by);
      g[d] = first || before.delta == T(0) ? T(0) : now.delta == T(0) ? f[d] : math::expm1(by);
      c[d] = now.c, delta[d] = now.delta;
    }
  }

  /// Values become F; each thread those of the channels that it advances.
  __device__ void transform(const Tile<T>& values) const {
    for (int d = threadIdx.x; d < channels; d += blockDim.x)
      for (int r = 0; r < values.rows; ++r) values.row(r)[d] = anchor(d).value(values.row(r)[d]);
  }
};

}  // namespace vitrine::cuda
