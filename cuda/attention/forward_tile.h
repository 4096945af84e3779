// Attention that never stores its weights (Dao et al. 2022): one block per tile of queries of a
// head, 32 keys at a time.
//
//   y = Σ e^(s − m)·v / Σ e^(s − m),   s = form(q·k),   m = the largest score so far
//
// When a larger score comes, the sums are scaled down once.
//
// Keys and values pass through shared memory; scores, weights and sums of a warp stay in its
// registers (cuda/attention/products.h). LASER's anchors are updated from block to block
// (cuda/attention/laser.h). The steps `tiled` and `tensor_core` differ only in how products are
// computed.
#pragma once

#include "cuda/attention/laser.h"
#include "cuda/sum_exp.h"

namespace vitrine::cuda {

template <class S>
struct ForwardMemory {
  SharedMatrix<S> q, k, v;  // k and v: of all stages
  SharedMatrix<AccumulatorOf<S>>
      scores;  // weights for scalar products; scores of elements that are computed exactly
  LaserChannels<AccumulatorOf<S>> laser;

  VITRINE_HD ForwardMemory(SharedArena& arena, int tile, int size, int channels, bool with_laser)
      : q(arena.matrix<S>(tile, size)),
        k(arena.matrix<S>(kAccumulatorColumns * kStages<S>, size)),
        v(arena.matrix<S>(kAccumulatorColumns * kStages<S>, channels)),
        scores(
            arena.matrix<AccumulatorOf<S>>(with_laser || !kTensorCores<S> ? tile : 0, kAccumulatorColumns)),
        laser(arena, with_laser ? channels : 0) {}
};

template <class S>
struct AttentionOutputs {
  Heads<S> y, rest;              // rest: the rounding error of y, if it is saved
  Heads<AccumulatorOf<S>> kept;  // for LASER, see Anchor::keeps_whole()
  AccumulatorOf<S>* lse;
};

template <class S, int kHeight>
class ForwardTile {
 public:
  using T = AccumulatorOf<S>;

  __device__ ForwardTile(const AttentionInputs<S>& in, const AttentionOutputs<S>& out, char* shared)
      : in_(in),
        out_(out),
        b_(blockIdx.z),
        h_(blockIdx.y),
        arena_(shared),
        memory_(arena_, in.tile, in.size, in.channels, in.laser),
        scores_(in.scores.of_head(b_, h_)),
        k_(in.k.rows(b_, h_ / in.group)),
        v_(in.v.rows(b_, h_ / in.group)),
        begin_(tile_of_queries() * in.tile),
        end_(begin_ + in.tile < scores_.queries ? begin_ + in.tile : scores_.queries),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * 16 * kHeight) {
    for (int own = 0; own < kOwn; ++own) largest_[own] = minus_infinity<T>(), total_[own] = 0;
  }

  __device__ void run() {
    if (is_near(in_.near, (b_ * static_cast<int>(gridDim.y) + h_) / in_.group, scores_, begin_)) return;
    memory_.q.load(copies_, in_.q.rows(b_, h_), begin_, end_, in_.size);
    if (in_.laser) memory_.laser.start();
    for_each_block([&](int j) {
      if (in_.laser) {
        memory_.laser.advance(stage(memory_.v, j), j);
        memory_.laser.transform(stage(memory_.v, j));
        __syncthreads();
      }
      if (own_ < end_ && (in_.laser || !hidden(j))) add_block(j);
    });
    write_lse();
    int repairs = 0;
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator) {
      const int first = accumulator * kAccumulatorColumns;
      if (first < in_.channels)
        in_.laser ? finish_laser(first, sums_[accumulator], repairs) : finish_mean(first, sums_[accumulator]);
    }
    if (!in_.laser || !merge_block(repairs, [](int a, int b) { return a | b; })) return;
#pragma unroll 1
    for (int first = 0; first < in_.channels; first += kAccumulatorColumns) repair(first);
  }

 private:
  static constexpr int kAccumulators = kMostAccumulators / kHeight,
                       kOwn = 2 * kHeight;  // kOwn: rows of a lane
  using Block = Accumulator<T, kHeight>;

  /// Calls f(j) with keys and values from j on in shared memory.
  template <class F>
  __device__ void for_each_block(F&& f) {
    const int first = scores_.first_key(begin_) / kAccumulatorColumns * kAccumulatorColumns;
    const auto load = [&](int j) {
      stage(memory_.k, j).load(copies_, k_, j, scores_.keys, in_.size);
      stage(memory_.v, j).load(copies_, v_, j, scores_.keys, in_.channels);
      if (in_.laser) memory_.laser.look(scores_, begin_, end_, j);
    };
    pipeline<kStages<S>>(copies_, first, scores_.last_key(end_ - 1), kAccumulatorColumns, load, f);
  }

  __device__ SharedMatrix<S> stage(const SharedMatrix<S>& all, int j) const {
    return all.part(j / kAccumulatorColumns % kStages<S>);
  }
  __device__ int own_end() const { return own_ + 16 * kHeight < end_ ? own_ + 16 * kHeight : end_; }
  __device__ bool hidden(int j) const {
    return scores_.hides_all(own_, own_end(), j, j + kAccumulatorColumns);
  }
  /// This warp's rows of the tile of scores.
  __device__ T* own_scores() const { return memory_.scores.row(own_ - begin_); }

  /// Computes the scores of this warp's queries and the keys from j on.
  __device__ void find_scores(Block& s, int j) const {
    multiply_transposed(s, memory_.q.row(own_ - begin_), stage(memory_.k, j), in_.size);
    if (scores_.is_plain(own_, own_ + 16 * kHeight, j, j + kAccumulatorColumns)) {
      each([&](Coordinates, T& x) { x *= scores_.scale; }, s);
    } else {
      each([&](Coordinates at, T& x) { x = scores_.score(x, own_ + at.row, j + at.column); }, s);
    }
  }

  __device__ void add_block(int j) {
    Block s;
    find_scores(s, j);
    T shift[kOwn], factor[kOwn], added[kOwn] = {};
    rescale(s, shift, factor);
    each([&](Coordinates at, T& x) { added[at.own] += x = exp_for<S>(x - shift[at.own]); }, s);
    visit_values<S>(in_.laser, [&](auto type) {
      using V = typename decltype(type)::type;
      const Weights<V, kHeight> weights(s, own_scores());
      const auto values = stage(memory_.v, j).template as<V>();
#pragma unroll kUnrolled < S>
      for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
        if (accumulator * kAccumulatorColumns < in_.channels)
          weights.multiply_by(sums_[accumulator], values, accumulator * kAccumulatorColumns);
    });
    for (int own = 0; own < kOwn; ++own) total_[own] += merge_row(added[own], [](T x, T y) { return x + y; });
  }

  /// Finds the largest scores of the lane's rows so far, and the shift to subtract from scores.
  /// Scales old sums down, and updates LASER's sums if anchors change.
  __device__ void rescale(Block& s, T (&shift)[kOwn], T (&factor)[kOwn]) {
    T most[kOwn];
    for (int own = 0; own < kOwn; ++own) most[own] = largest_[own];
    each([&](Coordinates at, T& x) { most[at.own] = math::max(most[at.own], x); }, s);
    bool scales = false;
    for (int own = 0; own < kOwn; ++own) {
      most[own] = merge_row(most[own], [](T x, T y) { return math::max(x, y); });
      shift[own] = most[own] == minus_infinity<T>() ? T(0) : most[own];
      factor[own] = exp_for<S>(largest_[own] - shift[own]);
      largest_[own] = most[own];
      total_[own] *= factor[own];
      scales = scales || factor[own] != T(1);
    }
    const bool moves = in_.laser && memory_.laser.moves();
    if (!moves && !__any_sync(kAllLanes, scales)) return;
#pragma unroll kUnrolled < S>
    for (int accumulator = 0; accumulator < kAccumulators; ++accumulator)
      each(
          [&](Coordinates at, T& x) {
            x *= factor[at.own];
            const int d = accumulator * kAccumulatorColumns + at.column;
            if (moves && d < in_.channels) x = x * memory_.laser.f[d] + memory_.laser.g[d] * total_[at.own];
          },
          sums_[accumulator]);
  }

  __device__ T lse(int own) const {
    return total_[own] == T(0) ? minus_infinity<T>() : largest_[own] + math::log(total_[own]);
  }

  __device__ T* lse_of_head() const { return out_.lse + (int64_t{b_} * gridDim.y + h_) * scores_.queries; }

  __device__ void write_lse() const {
    const int lane = threadIdx.x % kWarp;
    for (int own = 0; own < kOwn; ++own) {
      const int i = own_ + lane / 4 + 8 * own;
      if (lane % 4 == 0 && i < end_) lse_of_head()[i] = lse(own);
    }
  }

  __device__ bool is_output(Coordinates at, int first) const {
    return own_ + at.row < end_ && first + at.column < in_.channels;
  }

  __device__ void finish_mean(int first, Block& averages) const {
    const HeadMatrix<S> y = out_.y.rows(b_, h_), rest = out_.rest.rows(b_, h_);
    each(
        [&](Coordinates at, T& x) {
          if (!is_output(at, first)) return;
          const int i = own_ + at.row, d = first + at.column;
          const T mean = total_[at.own] == T(0) ? T(0) : x / total_[at.own];
          const S rounded(mean);
          y.row(i)[d] = rounded;
          if (out_.rest.data) rest.row(i)[d] = S(mean - static_cast<T>(rounded));
        },
        averages);
  }

  /// If a sum is not accurate, the saved value becomes NaN, and repair() must follow.
  __device__ void finish_laser(int first, Block& averages, int& repairs) const {
    const HeadMatrix<S> y = out_.y.rows(b_, h_);
    const HeadMatrix<T> kept = out_.kept.rows(b_, h_);
    each(
        [&](Coordinates at, T& x) {
          if (!is_output(at, first)) return;
          const int i = own_ + at.row, d = first + at.column;
          if (total_[at.own] == T(0)) {
            y.row(i)[d] = S(0), kept.row(i)[d] = T(0);
            return;
          }
          const Anchor<T> anchor = memory_.laser.anchor(d);
          const T read = anchor.read(x / total_[at.own]);
          const T o = anchor.c + read;
          const bool trusted = !anchor.out_of_range(read);
          y.row(i)[d] = S(o);
          kept.row(i)[d] = !trusted ? T(NAN) : anchor.template keeps_whole<S>() ? o : read;
          if (!trusted) repairs = 1;
        },
        averages);
  }

  /// Computes the marked elements of 32 channels exactly, one per lane: log Σ e^(log p + v) over
  /// all keys. This is rare, so its sums are in memory, and its loops are not unrolled.
  __device__ void repair(int first) {
    const HeadMatrix<S> y = out_.y.rows(b_, h_);
    const HeadMatrix<T> kept = out_.kept.rows(b_, h_);
    const int d = first + static_cast<int>(threadIdx.x % kWarp), rows = own_end() - own_;
    const auto is_marked = [&](int r) { return d < in_.channels && std::isnan(kept.row(own_ + r)[d]); };
    SumExp<T> exact[16 * kHeight];
#pragma unroll 1
    for (SumExp<T>& all : exact) all = {minus_infinity<T>(), T(0)};
    for_each_block([&](int j) {
      if (rows <= 0) return;
      Block products;
      multiply_transposed(products, memory_.q.row(own_ - begin_), stage(memory_.k, j), in_.size);
      share(own_scores(), memory_.scores.stride, products);
#pragma unroll 1
      for (int r = 0; r < rows; ++r) {
        if (!is_marked(r)) continue;
#pragma unroll 1
        for (int c = 0; c < kAccumulatorColumns; ++c) {
          const T score = scores_.score(own_scores()[r * memory_.scores.stride + c], own_ + r, j + c);
          if (score != minus_infinity<T>())
            exact[r] = merge(exact[r], SumExp<T>{(score - lse_of_head()[own_ + r]) +
                                                     static_cast<T>(stage(memory_.v, j).row(c)[d]),
                                                 T(1)});
        }
      }
    });
#pragma unroll 1
    for (int r = 0; r < rows; ++r) {
      if (!is_marked(r)) continue;
      const T o = exact[r].largest + math::log(exact[r].total);
      y.row(own_ + r)[d] = S(o);
      kept.row(own_ + r)[d] = o;
    }
  }

  const AttentionInputs<S>& in_;
  const AttentionOutputs<S>& out_;
  const int b_, h_;
  SharedArena arena_;
  const ForwardMemory<S> memory_;
  const Scores<T> scores_;
  const HeadMatrix<S> k_, v_;
  const int begin_, end_, own_;  // the tile's queries, and this warp's first
  AsyncCopies copies_;
  Block sums_[kAccumulators];
  T largest_[kOwn], total_[kOwn];
};

}  // namespace vitrine::cuda
