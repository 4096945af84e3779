// LASER's read for a tile of queries: o = c + log(δ + Σ a·F), with F = e^(v − c) − δ in place of v
// (ops/cpu/attention/rows.h says which anchor c and which δ a channel has). The anchor follows the
// range of the values that the tile's queries have seen so far, so that the forward reads the
// values once. When the anchor changes from c to c′, a rank-one update corrects the sums: with f =
// e^(c − c′)
//
//   Σ p·F′ = f·Σ p·F + g·Σ p,   g = f − 1, f or 0 where (δ, δ′) is (1, 1), (1, 0) or (0, 0).
//
// F and the cotangents H are rounded to the dtype of v, or to bfloat16 if v is float16, whose range
// is too small.
#pragma once

#include "cuda/attention/laser_operands.h"

namespace vitrine::cuda {

template <class T>
struct Anchor {
  T c = 0, delta = 1;

  /// The anchor for values from low to high; low > high if there are no values.
  __device__ static Anchor of(T low, T high) {
    const T range = high - low;
    if (low > high) return {};
    if (range <= T(kLaserNear)) return {(low + high) * T(0.5), T(1)};
    if (range <= kFar) return {low, T(1)};
    return {high - kFar, T(0)};
  }
  /// F of v. If v − c is above kFar, no query of the tile sees the value: it has weight 0, and F
  /// must stay finite.
  __device__ T value(T v) const {
    const T x = math::min(v - c, kFar);
    return delta == T(0) ? math::exp(x) : math::expm1(x);
  }
  /// o − c = log(δ + sum), and its inverse.
  __device__ T read(T sum) const { return delta == T(0) ? math::log(sum) : math::log1p(sum); }
  __device__ T sum(T read) const { return delta == T(0) ? math::exp(read) : math::expm1(read); }
  /// Whether the values are too far apart and the sum is below ½: then the result is not accurate,
  /// and the element is computed exactly.
  __device__ bool out_of_range(T read) const { return delta == T(0) && !(read >= T(-0.7)); }
  /// Whether the forward saves o for the backward, or o − c. It saves o in 16 bits, because another
  /// kernel may have used other anchors, and if δ = 0, because an exact o may be far from c.
  /// Otherwise the backward finds the same anchor near o, and o would lose digits that o − c has.
  template <class S>
  __device__ bool keeps_whole() const {
    return kTensorCores<S> || delta == T(0);
  }
  template <class S>
  __device__ T read_of(T kept) const {
    return keeps_whole<S>() ? kept - c : kept;
  }

  static constexpr T kFar = T(kLaserFar);
};

/// The channels' anchors and ranges, in shared memory. One thread updates each channel.
template <class T>
struct LaserChannels {
  static constexpr int kMostStages = 2;
  int channels;
  T *low, *high, *c, *delta, *f, *g;
  T* seen;  // [stages, 32]: whether any query of the tile sees this key

  VITRINE_HD LaserChannels(SharedArena& arena, int channels)
      : channels(channels),
        low(arena.take<T>(channels)),
        high(arena.take<T>(channels)),
        c(arena.take<T>(channels)),
        delta(arena.take<T>(channels)),
        f(arena.take<T>(channels)),
        g(arena.take<T>(channels)),
        seen(arena.take<T>(kMostStages * kAccumulatorColumns)) {}

  __device__ Anchor<T> anchor(int d) const { return {c[d], delta[d]}; }

  __device__ void start() const {
    for (int d = threadIdx.x; d < channels; d += blockDim.x) {
      low[d] = static_cast<T>(INFINITY), high[d] = -low[d];
      c[d] = 0, delta[d] = 1;
    }
  }

  /// Finds which keys from j on get a weight from queries [begin, end). A barrier must follow.
  __device__ void look(const Scores<T>& scores, int begin, int end, int j) const {
    if (threadIdx.x >= kAccumulatorColumns) return;
    const int key = j + static_cast<int>(threadIdx.x);
    bool any = key >= scores.first_key(begin) && key < scores.last_key(end - 1);
    if (any && (scores.allowed.data != nullptr || scores.bias.data != nullptr)) {
      any = false;
      for (int i = begin; i < end && !any; ++i) any = scores.may_weigh(i, key);
    }
    seen_at(j)[threadIdx.x] = any ? T(1) : T(0);
  }

  /// Extends the ranges by the values of the visible keys from j on, and updates the anchors and
  /// the factors f and g of the sums.
  template <class S>
  __device__ void advance(const SharedMatrix<S>& values, int j) const {
    const T* const seen_here = seen_at(j);
    for (int d = threadIdx.x; d < channels; d += blockDim.x) {
      const bool first = low[d] > high[d];
      T least = low[d], most = high[d];
#pragma unroll 8
      for (int r = 0; r < kAccumulatorColumns; ++r)
        if (seen_here[r] != T(0)) {
          const auto v = static_cast<T>(values.row(r)[d]);
          least = math::min(least, v), most = math::max(most, v);
        }
      low[d] = least, high[d] = most;
      const Anchor<T> before = anchor(d), now = Anchor<T>::of(least, most);
      const T by = before.c - now.c;
      f[d] = first ? T(0) : math::exp(by);
      g[d] = first || before.delta == T(0) ? T(0) : now.delta == T(0) ? f[d] : math::expm1(by);
      c[d] = now.c, delta[d] = now.delta;
    }
  }

  /// Whether the warp's sums of any channel change.
  __device__ bool moves() const {
    bool any = false;
    for (int d = threadIdx.x % kWarp; d < channels; d += kWarp) any = any || f[d] != T(1) || g[d] != T(0);
    return __any_sync(kAllLanes, any);
  }

  /// Replaces values by F. Each thread converts the channels that it updates.
  template <class S>
  __device__ void transform(const SharedMatrix<S>& values) const {
    for (int d = threadIdx.x; d < channels; d += blockDim.x) {
      const Anchor<T> here = anchor(d);
#pragma unroll 4
      for (int r = 0; r < values.rows; ++r)
        values.row(r)[d] = laser_bits<S>(here.value(static_cast<T>(values.row(r)[d])));
    }
  }

 private:
  __device__ T* seen_at(int j) const {
    return seen + j / kAccumulatorColumns % kMostStages * kAccumulatorColumns;
  }
};

}  // namespace vitrine::cuda
