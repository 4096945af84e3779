// The gradients of a tile of keys and values (cuda/attention/tiled_backward.cu).
#pragma once

#include "cuda/attention/gradients.h"

namespace vitrine::cuda {

template <class S>
struct KeyMemory {
  using T = AccumulatorOf<S>;
  SharedMatrix<S> k, v, q, dy;  // v, and dy of all stages, are LASER's F and H; q: of all stages
  SharedMatrix<T> p;            // for scalar products, and for what is read exactly
  T *lse, *correction;          // [stages, 32]
  T *c, *delta;

  VITRINE_HD KeyMemory(SharedArena& arena, int tile, int size, int channels, bool with_laser)
      : k(arena.matrix<S>(tile, size)),
        v(arena.matrix<S>(tile, channels)),
        q(arena.matrix<S>(kAccumulatorColumns * kStages<S>, size)),
        dy(arena.matrix<S>(kAccumulatorColumns * kStages<S>, channels)),
        p(arena.matrix<T>(with_laser || !kTensorCores<S> ? tile : 0, kAccumulatorColumns)),
        lse(arena.take<T>(kAccumulatorColumns * kStages<S>)),
        correction(arena.take<T>(kAccumulatorColumns * kStages<S>)),
        c(arena.take<T>(with_laser ? channels : 0)),
        delta(arena.take<T>(with_laser ? channels : 0)) {}

  __device__ Anchor<T> anchor(int d) const { return {c[d], delta[d]}; }
};

/// A tile of keys: 128 channels of dk and dv, summed over all query heads of the key head. Wider
/// heads have one block for each 128 channels, which computes the weights again, because a warp has
/// no registers for more channels.
template <class S>
class KeyGradients {
 public:
  using T = AccumulatorOf<S>;
  static constexpr int kAccumulators = kMostAccumulators / 2,
                       kPartChannels = kAccumulators * kAccumulatorColumns;

  __device__ KeyGradients(const AttentionInputs<S>& in, const Cotangents<S>& out, const Kept<S>& kept,
                          int tile, int parts, char* shared)
      : in_(in),
        out_(out),
        kept_(kept),
        b_(blockIdx.z),
        first_channel_(static_cast<int>(blockIdx.x) % parts * kPartChannels),
        arena_(shared),
        memory_(arena_, tile, in.size, in.channels, in.laser),
        scores_(in.scores),
        begin_(static_cast<int>(blockIdx.x) / parts * tile),
        end_(begin_ + tile < scores_.keys ? begin_ + tile : scores_.keys),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * kRows) {}

  __device__ void run(const Heads<S>& dk, const Heads<S>& dv) {
    if (is_near(in_.near, b_ * static_cast<int>(gridDim.y) + static_cast<int>(blockIdx.y))) return;
    memory_.k.load(copies_, in_.k.rows(b_, blockIdx.y), begin_, end_, in_.size);
    memory_.v.load(copies_, values(), begin_, end_, in_.channels);
    step_ = in_.tile < kAccumulatorColumns
                ? in_.tile
                : kAccumulatorColumns;  // queries of one tile, which share an anchor
    const int first_head = static_cast<int>(blockIdx.y) * in_.group;
    for (h_ = first_head; h_ < first_head + in_.group; ++h_) {
      scores_ = in_.scores.of_head(b_, h_);
      laser_tile_ = -1;
      pipeline<kStages<S>>(
          copies_, scores_.first_query(begin_) / step_ * step_, scores_.last_query(end_ - 1), step_,
          [&](int i) { load(i); },
          [&](int i) {
            if (in_.laser) change_anchors(i);
            if (own_ < end_ && !scores_.hides_all(i, queries_end(i), own_, own_ + kRows)) add_block(i);
          });
    }
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator) {
      const int first = channel_of(accumulator);
      write_gradient(dk.rows(b_, blockIdx.y), dk_[accumulator], own_, end_, first, in_.size, scores_.scale);
      write_gradient(dv.rows(b_, blockIdx.y), dv_[accumulator], own_, end_, first, in_.channels, T(1));
    }
  }

 private:
  static constexpr int kRows = 16;

  __device__ HeadMatrix<S> values() const { return in_.v.rows(b_, blockIdx.y); }
  __device__ int queries_end(int i) const {
    return i + step_ < scores_.queries ? i + step_ : scores_.queries;
  }
  __device__ int channel_of(int accumulator) const {
    return first_channel_ + accumulator * kAccumulatorColumns;
  }
  __device__ int stage(int i) const { return i / step_ % kStages<S>; }
  __device__ T* own_p() const { return memory_.p.row(own_ - begin_); }

  /// Loads queries from i on, and their dy, lse and corrections.
  __device__ void load(int i) {
    const int64_t heads = int64_t{gridDim.y} * in_.group, row = (b_ * heads + h_) * scores_.queries + i;
    const int end = queries_end(i);
    memory_.q.part(stage(i)).load(copies_, in_.q.rows(b_, h_), i, end, in_.size);
    memory_.dy.part(stage(i)).load(copies_, kept_.h.rows(b_, h_), i, end, in_.channels);
    for (int r = threadIdx.x; r < kAccumulatorColumns; r += blockDim.x) {
      memory_.lse[kAccumulatorColumns * stage(i) + r] = i + r < end ? out_.lse[row + r] : T(0);
      memory_.correction[kAccumulatorColumns * stage(i) + r] = i + r < end ? kept_.correction[row + r] : T(0);
    }
  }

  /// If a new tile of queries begins, computes F with the anchors of this tile.
  __device__ void change_anchors(int i) {
    if (i / in_.tile == laser_tile_) return;
    laser_tile_ = i / in_.tile;
    const int64_t head = int64_t{b_} * gridDim.y * in_.group + h_;
    const int64_t tile = head * ((scores_.queries + in_.tile - 1) / in_.tile) + laser_tile_;
    exact_ = kept_.exact[tile];
    const T* const anchors = kept_.anchors + tile * 2 * in_.channels;
    for (int d = threadIdx.x; d < in_.channels; d += blockDim.x) {
      const Anchor<T> anchor{anchors[d], anchors[in_.channels + d]};
      memory_.c[d] = anchor.c, memory_.delta[d] = anchor.delta;
#pragma unroll 4
      for (int r = 0; begin_ + r < end_; ++r)
        memory_.v.row(r)[d] = laser_bits<S>(anchor.value(static_cast<T>(values().row(begin_ + r)[d])));
    }
    __syncthreads();
  }

  /// log P of key own + row and query i + column.
  __device__ T log_weight_at(Coordinates at, int i, T product, T* slope) const {
    if (i + at.column >= queries_end(i)) return -static_cast<T>(INFINITY);
    return log_weight(scores_.score(product, i + at.column, own_ + at.row, slope),
                      memory_.lse[kAccumulatorColumns * stage(i) + at.column]);
  }

  __device__ void add_block(int i) {
    Accumulator<T> p, ds;
    const SharedMatrix<S> q = memory_.q.part(stage(i)), dy = memory_.dy.part(stage(i));
    const T* const lse = memory_.lse + kAccumulatorColumns * stage(i);
    const T* const correction = memory_.correction + kAccumulatorColumns * stage(i);
    multiply_transposed(p, memory_.k.row(own_ - begin_), q, in_.size);
    visit_values<S>(in_.laser, [&](auto type) {
      using V = typename decltype(type)::type;
      multiply_transposed(ds, memory_.v.template as<V>().row(own_ - begin_), dy.template as<V>(),
                          in_.channels);
    });
    if (exact_) add_exact_values(i, p);
    const bool plain = step_ == kAccumulatorColumns &&
                       scores_.is_plain(i, i + kAccumulatorColumns, own_, own_ + kRows) &&
                       own_ + kRows <= end_;
    each(
        [&](Coordinates at, T& x, T& g) {
          T slope = 1;
          const T l = plain ? log_weight(x * scores_.scale, lse[at.column]) : log_weight_at(at, i, x, &slope);
          x = exp_for<S>(l);
          g = score_gradient(x, g, correction[at.column]);
          if (exact_ && l != -static_cast<T>(INFINITY)) g += read_exactly(i + at.column, own_ + at.row, l);
          g *= slope;
        },
        p, ds);
    visit_values<S>(in_.laser, [&](auto type) {
      using V = typename decltype(type)::type;
      const Weights<V, 1> weights(p, own_p());
#pragma unroll kUnrolled < S>
      for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
        if (channel_of(accumulator) < in_.channels) add_values(accumulator, weights, dy.template as<V>());
    });
    const Weights<S, 1> gradients(ds, own_p());
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
      if (channel_of(accumulator) < in_.size)
        gradients.multiply_by(dk_[accumulator], q, channel_of(accumulator));
  }

  template <class V>
  __device__ void add_values(int accumulator, const Weights<V, 1>& weights, const SharedMatrix<V>& dy) {
    const int first = channel_of(accumulator);
    if (!in_.laser) return weights.multiply_by(dv_[accumulator], dy, first);
    Accumulator<T> product;
    weights.multiply_by(product, dy, first);
    const S* const f = memory_.v.row(own_ - begin_);
    each(
        [&](Coordinates at, T& sum, T& x) {
          const int d = first + at.column;
          if (d < in_.channels) sum += x * (laser_value(f[at.row * memory_.v.stride + d]) + memory_.delta[d]);
        },
        dv_[accumulator], product);
  }

  __device__ T exact_at(int i, int j, int d, T l) const {
    return exact_term(memory_.anchor(d), out_.kept.rows(b_, h_).row(i)[d],
                      static_cast<T>(out_.dy.rows(b_, h_).row(i)[d]), static_cast<T>(values().row(j)[d]), l);
  }

  __device__ T read_exactly(int i, int j, T l) const {
    T sum = 0;
#pragma unroll 1
    for (int d = 0; d < in_.channels; ++d) sum += exact_at(i, j, d, l);
    return sum;
  }

  /// Adds dv of the elements that were computed exactly; `products` are q·k.
  __device__ void add_exact_values(int i, Accumulator<T> products) {
    each([&](Coordinates at, T& x) { x = log_weight_at(at, i, x, nullptr); }, products);
    share(own_p(), memory_.p.stride, products);
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
      each(
          [&](Coordinates at, T& sum) {
            const int d = channel_of(accumulator) + at.column, j = own_ + at.row;
            if (d >= in_.channels || j >= end_) return;
#pragma unroll 1
            for (int c = 0; i + c < queries_end(i); ++c)
              sum += exact_at(i + c, j, d, own_p()[at.row * memory_.p.stride + c]);
          },
          dv_[accumulator]);
  }

  const AttentionInputs<S>& in_;
  const Cotangents<S>& out_;
  const Kept<S>& kept_;
  const int b_;
  int h_ = 0;
  const int first_channel_;  // of dk and dv
  SharedArena arena_;
  const KeyMemory<S> memory_;
  Scores<T> scores_;             // of head h_
  const int begin_, end_, own_;  // the tile's keys, and this warp's first
  int step_ = 0, laser_tile_ = -1, exact_ = 0;
  AsyncCopies copies_;
  Accumulator<T> dk_[kAccumulators], dv_[kAccumulators];
};

}  // namespace vitrine::cuda
