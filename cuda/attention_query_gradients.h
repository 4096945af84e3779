// The gradient of a tile of queries (cuda/attention_backward.cu).
#pragma once

#include "cuda/attention_gradients.h"

namespace vitrine::cuda {

template <class T>
struct QueryMemory {
  Tile<T> q, dy, k, v, p;
  LaserChannels<T> laser;

  VITRINE_HD QueryMemory(Arena<T>& arena, int tile, int size, int channels)
      : q(arena.tile(tile, size)),
        dy(arena.tile(tile, channels)),
        k(arena.tile(kPieceColumns, size)),
        v(arena.tile(kPieceColumns, channels)),
        p(arena.tile(tile, kPieceColumns)),
        laser(arena, channels) {}
};

/// A tile of queries: dq.
template <class S, int kPieces>
class QueryGradients {
 public:
  using T = Wide<S>;

  __device__ QueryGradients(const AttentionInputs<S>& in, const Cotangents<S>& out, const Kept<T>& kept,
                            T* shared)
      : in_(in),
        b_(blockIdx.z),
        h_(blockIdx.y),
        arena_(shared),
        memory_(arena_, in.tile, in.size, in.channels),
        scores_(in.scores.of_head(b_, h_)),
        k_(in.k.rows(b_, h_ / in.group)),
        v_(in.v.rows(b_, h_ / in.group)),
        dy_(out.dy.rows(b_, h_)),
        sums_(out.sums.rows(b_, h_)),
        head_(int64_t{b_} * gridDim.y + h_),
        begin_(static_cast<int>(blockIdx.x) * in.tile),
        end_(begin_ + in.tile < scores_.queries ? begin_ + in.tile : scores_.queries),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * kPieceRows),
        kept_(kept) {
    for (int half = 0; half < 2; ++half) {
      const int i = own_ + static_cast<int>(threadIdx.x % kWarp) / 4 + 8 * half;
      lse_[half] = i < end_ ? out.lse[head_ * scores_.queries + i] : T(0);
    }
  }

  __device__ void run(const Heads<S>& dq) {
    memory_.q.load(in_.q.rows(b_, h_), begin_, end_, in_.size);
    memory_.dy.load(dy_, begin_, end_, in_.channels);
    if (in_.laser) find_anchors();
    __syncthreads();
    correct();
    for_each_block([&](int j) {
      memory_.k.load(k_, j, scores_.keys, in_.size);
      __syncthreads();
      if (in_.laser) {
        memory_.laser.transform(memory_.v);
        __syncthreads();
      }
      if (own_ < end_) add_block(j);
    });
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      write_gradient(dq.rows(b_, h_), dq_[piece], own_, end_, piece * kPieceColumns, in_.size, scores_.scale);
  }

 private:
  /// Calls f(j) with values from j on in shared memory, once a barrier has followed.
  template <class F>
  __device__ void for_each_block(F&& f) {
    const int last = scores_.last_key(end_ - 1);
    for (int j = scores_.first_key(begin_) / kPieceColumns * kPieceColumns; j < last; j += kPieceColumns) {
      __syncthreads();  // the block before has been read
      memory_.v.load(v_, j, scores_.keys, in_.channels);
      f(j);
    }
  }

  /// LASER's anchors as the forward left them.
  __device__ void find_anchors() {
    const auto& laser = memory_.laser;
    laser.start();
    for_each_block([&](int j) {
      laser.look(scores_, begin_, end_, j);
      __syncthreads();
      laser.advance(memory_.v);
    });
    T* const c = kept_.anchors + (head_ * gridDim.x + blockIdx.x) * 2 * in_.channels;
    for (int d = threadIdx.x; d < in_.channels; d += blockDim.x)
      c[d] = laser.c[d], c[in_.channels + d] = laser.delta[d];
  }

  /// D of this warp's rows, a lane each; LASER's dy becomes H. The sum has the order of dP's, so that nothing is left of the two
  /// where a query sees one key.
  __device__ void correct() {
    const int lane = threadIdx.x % kWarp, i = own_ + lane;
    T mine = 0;
    int exact = 0;
    if (lane < kPieceRows && i < end_) {
      T* const dy = own(memory_.dy) + lane * memory_.dy.stride;
      for (int d = 0; d < in_.channels; ++d)
        mine += in_.laser ? laser_cotangent(dy[d], i, d, exact) : dy[d] * sums_.row(i)[d];
      kept_.correction[head_ * scores_.queries + i] = mine;
    }
    for (int half = 0; half < 2; ++half)
      correction_[half] = __shfl_sync(kAllLanes, mine, lane / 4 + 8 * half);
    __syncwarp();
    if (!in_.laser) return;
    exact_ = merge_block(exact, [](int a, int b) { return a | b; });
    if (threadIdx.x == 0) kept_.exact[head_ * gridDim.x + blockIdx.x] = exact_;
  }

  /// dy becomes H; returns its term of D.
  __device__ T laser_cotangent(T& dy, int i, int d, int& exact) const {
    const T up = dy, sum = sums_.row(i)[d];
    const Anchor<T> anchor = memory_.laser.anchor(d);
    if (anchor.was_read_exactly(sum)) {
      dy = 0, exact = 1;
      return up;
    }
    dy = anchor.delta + sum == T(0) ? T(0) : up / (anchor.delta + sum);  // 0: a row that sees nothing
    return anchor.delta == T(0) ? up : dy * sum;
  }

  __device__ T* own(const Tile<T>& tile) const { return tile.row(own_ - begin_); }

  __device__ void add_block(int j) {
    Piece<T> s, ds;
    multiply_transposed(s, own(memory_.q), memory_.q.stride, memory_.k, in_.size);
    multiply_transposed(ds, own(memory_.dy), memory_.dy.stride, memory_.v, in_.channels);
    each(
        [&](Place at, T& product, T& x) {
          T slope = 1;
          const int i = own_ + at.row, key = j + at.column;
          const T l = log_weight(scores_.score(product, i, key, &slope), lse_[at.half]);
          x = score_gradient(math::exp(l), x, correction_[at.half]);
          if (exact_ && l != -static_cast<T>(INFINITY)) x += read_exactly(i, key, l);
          x *= slope;
        },
        s, ds);
    share(own(memory_.p), memory_.p.stride, ds);
#pragma unroll
    for (int piece = 0; piece < kPieces && piece * kPieceColumns < in_.size; ++piece)
      multiply_by(dq_[piece], own(memory_.p), memory_.p.stride, memory_.k, piece * kPieceColumns);
  }

  __device__ T read_exactly(int i, int j, T l) const {
    T sum = 0;
    for (int d = 0; d < in_.channels; ++d)
      sum += exact_term(memory_.laser.anchor(d), sums_.row(i)[d], static_cast<T>(dy_.row(i)[d]),
                        static_cast<T>(v_.row(j)[d]), l);
    return sum;
  }

  const AttentionInputs<S>& in_;
  const int b_, h_;
  Arena<T> arena_;
  const QueryMemory<T> memory_;
  const Scores<T> scores_;
  const Rows<S> k_, v_, dy_;
  const Rows<T> sums_;
  const int64_t head_;
  const int begin_, end_, own_;  // the tile's queries, and this warp's first
  const Kept<T>& kept_;
  T lse_[2], correction_[2] = {0, 0};
  int exact_ = 0;
  Piece<T> dq_[kPieces];
};

}  // namespace vitrine::cuda
