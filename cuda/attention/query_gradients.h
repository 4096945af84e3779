// The gradient of a tile of queries (cuda/attention/tiled_backward.cu).
#pragma once

#include "cuda/attention/gradients.h"

namespace vitrine::cuda {

template <class S>
struct QueryMemory {
  SharedMatrix<S> q, dy, k, v;        // k and v: of all stages
  SharedMatrix<AccumulatorOf<S>> ds;  // for scalar products
  LaserChannels<AccumulatorOf<S>> laser;

  VITRINE_HD QueryMemory(SharedArena& arena, int tile, int size, int channels, bool with_laser)
      : q(arena.matrix<S>(tile, size)),
        dy(arena.matrix<S>(tile, channels)),
        k(arena.matrix<S>(kAccumulatorColumns * kStages<S>, size)),
        v(arena.matrix<S>(kAccumulatorColumns * kStages<S>, channels)),
        ds(arena.matrix<AccumulatorOf<S>>(kTensorCores<S> ? 0 : tile, kAccumulatorColumns)),
        laser(arena, with_laser ? channels : 0) {}
};

/// A tile of queries: dq.
template <class S, int kHeight>
class QueryGradients {
 public:
  using T = AccumulatorOf<S>;

  __device__ QueryGradients(const AttentionInputs<S>& in, const Cotangents<S>& out, const Kept<S>& kept,
                            char* shared)
      : in_(in),
        out_(out),
        b_(blockIdx.z),
        h_(blockIdx.y),
        arena_(shared),
        memory_(arena_, in.tile, in.size, in.channels, in.laser),
        scores_(in.scores.of_head(b_, h_)),
        head_(int64_t{b_} * gridDim.y + h_),
        begin_(tile_of_queries() * in.tile),
        end_(begin_ + in.tile < scores_.queries ? begin_ + in.tile : scores_.queries),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * kRows),
        kept_(kept) {
    for (int own = 0; own < kOwn; ++own) {
      const int i = own_ + static_cast<int>(threadIdx.x % kWarp) / 4 + 8 * own;
      lse_[own] = i < end_ ? out.lse[head_ * scores_.queries + i] : T(0);
    }
  }

  __device__ void run(const Heads<S>& dq) {
    if (is_near(in_.near, static_cast<int>(head_) / in_.group)) return;
    memory_.q.load(copies_, in_.q.rows(b_, h_), begin_, end_, in_.size);
    memory_.dy.load(copies_, dy(), begin_, end_, in_.channels);
    copies_.commit();
    if (in_.laser) find_anchors();
    copies_.wait<0>();
    __syncthreads();
    correct();
    const auto load = [&](int j) {
      stage(memory_.k, j).load(copies_, in_.k.rows(b_, h_ / in_.group), j, scores_.keys, in_.size);
      load_values(j);
    };
    for_each_block(load, [&](int j) {
      if (in_.laser) {
        memory_.laser.transform(stage(memory_.v, j));
        __syncthreads();
      }
      const int own_end = own_ + kRows < end_ ? own_ + kRows : end_;
      if (own_ < end_ && !scores_.hides_all(own_, own_end, j, j + kAccumulatorColumns)) add_block(j);
    });
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
      write_gradient(dq.rows(b_, h_), dq_[accumulator], own_, end_, accumulator * kAccumulatorColumns,
                     in_.size, scores_.scale);
  }

 private:
  static constexpr int kRows = 16 * kHeight, kAccumulators = kMostAccumulators / kHeight;
  static constexpr int kOwn = 2 * kHeight;  // rows of a lane
  using Block = Accumulator<T, kHeight>;

  __device__ HeadMatrix<S> values() const { return in_.v.rows(b_, h_ / in_.group); }
  __device__ HeadMatrix<S> dy() const { return out_.dy.rows(b_, h_); }
  __device__ HeadMatrix<T> kept() const { return out_.kept.rows(b_, h_); }
  __device__ T dlse(int i) const {
    return out_.dlse != nullptr ? out_.dlse[head_ * scores_.queries + i] : T(0);
  }

  template <class Load, class F>
  __device__ void for_each_block(Load&& load, F&& f) {
    const int first = scores_.first_key(begin_) / kAccumulatorColumns * kAccumulatorColumns;
    pipeline<kStages<S>>(copies_, first, scores_.last_key(end_ - 1), kAccumulatorColumns, load, f);
  }

  __device__ SharedMatrix<S> stage(const SharedMatrix<S>& all, int j) const {
    return all.part(j / kAccumulatorColumns % kStages<S>);
  }
  __device__ void load_values(int j) {
    stage(memory_.v, j).load(copies_, values(), j, scores_.keys, in_.channels);
  }

  /// Finds LASER's anchors again, as at the end of the forward.
  __device__ void find_anchors() {
    const auto& laser = memory_.laser;
    laser.start();
    const auto load = [&](int j) {
      load_values(j);
      laser.look(scores_, begin_, end_, j);
    };
    for_each_block(load, [&](int j) { laser.advance(stage(memory_.v, j), j); });
    T* const c = kept_.anchors + (head_ * gridDim.x + tile_of_queries()) * 2 * in_.channels;
    for (int d = threadIdx.x; d < in_.channels; d += blockDim.x)
      c[d] = laser.c[d], c[in_.channels + d] = laser.delta[d];
  }

  /// Computes D of this warp's rows. For LASER, dy becomes H, here and for the second kernel.
  /// Scalar products are added in the same order as in dP, so that dP − D is exactly 0 if a query
  /// sees one key.
  __device__ void correct() {
    const int lane = threadIdx.x % kWarp;
    T* const corrections = kept_.correction + head_ * scores_.queries;
    int exact = 0;
    if constexpr (kTensorCores<S>) {
      for (int i = own_; i < own_ + kRows && i < end_; ++i) {
        const T sum = merge_warp(add_corrections(i, lane, kWarp, exact), [](T x, T y) { return x + y; });
        if (lane == 0) corrections[i] = sum - dlse(i);
      }
    } else {
      if (lane < kRows && own_ + lane < end_)
        corrections[own_ + lane] = add_corrections(own_ + lane, 0, 1, exact) - dlse(own_ + lane);
    }
    __syncwarp();
    for (int own = 0; own < kOwn; ++own) {
      const int i = own_ + lane / 4 + 8 * own;
      correction_[own] = i < end_ ? corrections[i] : T(0);
    }
    if (!in_.laser) return;
    exact_ = merge_block(exact, [](int a, int b) { return a | b; });
    if (threadIdx.x == 0) kept_.exact[head_ * gridDim.x + tile_of_queries()] = exact_;
  }

  /// The sum of the terms of D_i over every `step`-th channel.
  __device__ T add_corrections(int i, int first, int step, int& exact) const {
    S* const row = memory_.dy.row(i - begin_);
    const HeadMatrix<S> y = out_.y.rows(b_, h_), rest = out_.rest.rows(b_, h_);
    T sum = 0;
    for (int d = first; d < in_.channels; d += step)
      sum = in_.laser ? add_laser_cotangent(sum, row[d], i, d, exact)
                      : std::fma(static_cast<T>(row[d]), unrounded(y, rest, i, d), sum);
    return sum;
  }

  /// Replaces an element of dy by H. Returns `correction` (D) plus the element's term, which uses
  /// the rounded H.
  __device__ T add_laser_cotangent(T correction, S& at, int i, int d, int& exact) const {
    const Anchor<T> anchor = memory_.laser.anchor(d);
    const T up = static_cast<T>(at), read = anchor.template read_of<S>(kept().row(i)[d]),
            sum = anchor.sum(read);
    const bool sees_nothing = out_.lse[head_ * scores_.queries + i] == -static_cast<T>(INFINITY);
    const bool read_exactly = !sees_nothing && anchor.out_of_range(read);
    if (read_exactly) exact = 1;
    at = laser_bits<S>(read_exactly || sees_nothing ? T(0) : up / (anchor.delta + sum));
    kept_.h.rows(b_, h_).row(i)[d] = at;
    return read_exactly ? correction + up : std::fma(laser_value(at), sum, correction);
  }

  __device__ void add_block(int j) {
    Block s, ds;
    multiply_transposed(s, memory_.q.row(own_ - begin_), stage(memory_.k, j), in_.size);
    visit_values<S>(in_.laser, [&](auto type) {
      using V = typename decltype(type)::type;
      multiply_transposed(ds, memory_.dy.template as<V>().row(own_ - begin_),
                          stage(memory_.v, j).template as<V>(), in_.channels);
    });
    const bool plain = scores_.is_plain(own_, own_ + kRows, j, j + kAccumulatorColumns);
    each(
        [&](Coordinates at, T& product, T& x) {
          T slope = 1;
          const int i = own_ + at.row, key = j + at.column;
          const T score = plain ? product * scores_.scale : scores_.score(product, i, key, &slope);
          const T l = log_weight(score, lse_[at.own]);
          x = score_gradient(exp_for<S>(l), x, correction_[at.own]);
          if (exact_ && l != -static_cast<T>(INFINITY)) x += read_exactly(i, key, l);
          if (out_.dbias.data != nullptr && scores_.sees(i, key)) out_.dbias.rows(b_, h_).row(i)[key] = x;
          x *= slope;
        },
        s, ds);
    const Weights<S, kHeight> weights(ds, memory_.ds.row(own_ - begin_));
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
      if (accumulator * kAccumulatorColumns < in_.size)
        weights.multiply_by(dq_[accumulator], stage(memory_.k, j), accumulator * kAccumulatorColumns);
  }

  __device__ T read_exactly(int i, int j, T l) const {
    T sum = 0;
#pragma unroll 1
    for (int d = 0; d < in_.channels; ++d)
      sum += exact_term(memory_.laser.anchor(d), kept().row(i)[d], static_cast<T>(dy().row(i)[d]),
                        static_cast<T>(values().row(j)[d]), l);
    return sum;
  }

  const AttentionInputs<S>& in_;
  const Cotangents<S>& out_;
  const int b_, h_;
  SharedArena arena_;
  const QueryMemory<S> memory_;
  const Scores<T> scores_;
  const int64_t head_;
  const int begin_, end_, own_;  // the tile's queries, and this warp's first
  const Kept<S>& kept_;
  AsyncCopies copies_;
  T lse_[kOwn], correction_[kOwn];
  int exact_ = 0;
  Block dq_[kAccumulators];
};

}  // namespace vitrine::cuda
