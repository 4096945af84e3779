// The gradients of a tile of keys and values (cuda/attention_backward.cu).
#pragma once

#include "cuda/attention_gradients.h"

namespace vitrine::cuda {

template <class T>
struct KeyMemory {
  Tile<T> k, v, q, dy, p;
  T *lse, *correction, *c, *delta;

  VITRINE_HD KeyMemory(Arena<T>& arena, int tile, int size, int channels)
      : k(arena.tile(tile, size)),
        v(arena.tile(tile, channels)),
        q(arena.tile(kPieceColumns, size)),
        dy(arena.tile(kPieceColumns, channels)),
        p(arena.tile(tile, kPieceColumns)),
        lse(arena.take(kPieceColumns)),
        correction(arena.take(kPieceColumns)),
        c(arena.take(channels)),
        delta(arena.take(channels)) {}

  __device__ Anchor<T> anchor(int d) const { return {c[d], delta[d]}; }
};

/// A tile of keys: dk and dv, over all query heads that read them.
template <class S, int kPieces>
class KeyGradients {
 public:
  using T = Wide<S>;

  __device__ KeyGradients(const AttentionInputs<S>& in, const Cotangents<S>& out, const Kept<T>& kept,
                          int tile, T* shared)
      : in_(in),
        out_(out),
        kept_(kept),
        b_(blockIdx.z),
        arena_(shared),
        memory_(arena_, tile, in.size, in.channels),
        scores_(in.scores),
        v_(in.v.rows(b_, blockIdx.y)),
        begin_(static_cast<int>(blockIdx.x) * tile),
        end_(begin_ + tile < scores_.keys ? begin_ + tile : scores_.keys),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * kPieceRows) {}

  __device__ void run(const Heads<S>& dk, const Heads<S>& dv) {
    memory_.k.load(in_.k.rows(b_, blockIdx.y), begin_, end_, in_.size);
    memory_.v.load(v_, begin_, end_, in_.channels);
    const int step =
        in_.tile < kPieceColumns ? in_.tile : kPieceColumns;  // queries of one tile, and so of one anchor
    for (h_ = static_cast<int>(blockIdx.y) * in_.group; h_ < static_cast<int>(blockIdx.y + 1) * in_.group;
         ++h_) {
      scores_ = in_.scores.of_head(b_, h_);
      const int last = scores_.last_query(end_ - 1);
      for (int i = scores_.first_query(begin_) / step * step; i < last; i += step) {
        __syncthreads();  // the block before has been read
        load(i, i + step < scores_.queries ? i + step : scores_.queries);
        __syncthreads();
        if (own_ < end_) add_block(i);
      }
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int first = piece * kPieceColumns;
      write_gradient(dk.rows(b_, blockIdx.y), dk_[piece], own_, end_, first, in_.size, scores_.scale);
      write_gradient(dv.rows(b_, blockIdx.y), dv_[piece], own_, end_, first, in_.channels, T(1));
    }
  }

 private:
  /// Queries [first, last) and what belongs to them.
  __device__ void load(int first, int last) {
    last_query_ = last;
    sums_ = out_.sums.rows(b_, h_), dy_ = out_.dy.rows(b_, h_);
    const int64_t heads = int64_t{gridDim.y} * in_.group, head = b_ * heads + h_;
    memory_.q.load(in_.q.rows(b_, h_), first, last, in_.size);
    memory_.dy.load(dy_, first, last, in_.channels);
    for (int r = threadIdx.x; r < kPieceColumns; r += blockDim.x) {
      const bool there = first + r < last;
      memory_.lse[r] = there ? out_.lse[head * scores_.queries + first + r] : T(0);
      memory_.correction[r] = there ? kept_.correction[head * scores_.queries + first + r] : T(0);
    }
    if (!in_.laser) return;
    const int64_t tile = head * ((scores_.queries + in_.tile - 1) / in_.tile) + first / in_.tile;
    exact_ = kept_.exact[tile];
    memory_.v.load(v_, begin_, end_, in_.channels);
    __syncthreads();
    const T* const anchors = kept_.anchors + tile * 2 * in_.channels;
    for (int d = threadIdx.x; d < in_.channels; d += blockDim.x) {
      const Anchor<T> anchor{anchors[d], anchors[in_.channels + d]};
      memory_.c[d] = anchor.c, memory_.delta[d] = anchor.delta;
      for (int r = 0; r < memory_.v.rows; ++r) memory_.v.row(r)[d] = anchor.value(memory_.v.row(r)[d]);
      for (int r = 0; first + r < last; ++r) {
        const T sum = sums_.row(first + r)[d], total = anchor.delta + sum;
        T& h = memory_.dy.row(r)[d];
        h = total == T(0) || anchor.was_read_exactly(sum) ? T(0) : h / total;
      }
    }
  }

  __device__ T* own(const Tile<T>& tile) const { return tile.row(own_ - begin_); }

  /// log P of key own + row and query i + column.
  __device__ T log_weight_at(Place at, int i, T product, T* slope) const {
    if (i + at.column >= last_query_) return -static_cast<T>(INFINITY);
    return log_weight(scores_.score(product, i + at.column, own_ + at.row, slope), memory_.lse[at.column]);
  }

  __device__ void add_block(int i) {
    Piece<T> p, ds;
    multiply_transposed(p, own(memory_.k), memory_.k.stride, memory_.q, in_.size);
    multiply_transposed(ds, own(memory_.v), memory_.v.stride, memory_.dy, in_.channels);
    if (exact_) add_exact_values(i, p);
    each(
        [&](Place at, T& x, T& g) {
          T slope = 1;
          const T l = log_weight_at(at, i, x, &slope);
          x = math::exp(l);
          g = score_gradient(x, g, memory_.correction[at.column]);
          if (exact_ && l != -static_cast<T>(INFINITY)) g += read_exactly(i + at.column, own_ + at.row, l);
          g *= slope;
        },
        p, ds);
    share(own(memory_.p), memory_.p.stride, p);
#pragma unroll
    for (int piece = 0; piece < kPieces && piece * kPieceColumns < in_.channels; ++piece) add_values(piece);
    share(own(memory_.p), memory_.p.stride, ds);
#pragma unroll
    for (int piece = 0; piece < kPieces && piece * kPieceColumns < in_.size; ++piece)
      multiply_by(dk_[piece], own(memory_.p), memory_.p.stride, memory_.q, piece * kPieceColumns);
  }

  __device__ void add_values(int piece) {
    const int first = piece * kPieceColumns;
    if (!in_.laser) return multiply_by(dv_[piece], own(memory_.p), memory_.p.stride, memory_.dy, first);
    Piece<T> product;
    multiply_by(product, own(memory_.p), memory_.p.stride, memory_.dy, first);
    each(
        [&](Place at, T& sum, T& x) {
          const int d = first + at.column;
          if (d < in_.channels) sum += x * (own(memory_.v)[at.row * memory_.v.stride + d] + memory_.delta[d]);
        },
        dv_[piece], product);
  }

  __device__ T exact_at(int i, int j, int d, T l) const {
    return exact_term(memory_.anchor(d), sums_.row(i)[d], static_cast<T>(dy_.row(i)[d]),
                      static_cast<T>(v_.row(j)[d]), l);
  }

  __device__ T read_exactly(int i, int j, T l) const {
    T sum = 0;
    for (int d = 0; d < in_.channels; ++d) sum += exact_at(i, j, d, l);
    return sum;
  }

  /// dv of the elements that were read exactly; `products`: q·k.
  __device__ void add_exact_values(int i, Piece<T> products) {
    each([&](Place at, T& x) { x = log_weight_at(at, i, x, nullptr); }, products);
    share(own(memory_.p), memory_.p.stride, products);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      each(
          [&](Place at, T& sum) {
            const int d = piece * kPieceColumns + at.column, j = own_ + at.row;
            if (d >= in_.channels || j >= end_) return;
            for (int c = 0; i + c < last_query_; ++c)
              sum += exact_at(i + c, j, d, own(memory_.p)[at.row * memory_.p.stride + c]);
          },
          dv_[piece]);
  }

  const AttentionInputs<S>& in_;
  const Cotangents<S>& out_;
  const Kept<T>& kept_;
  const int b_;
  int h_ = 0;
  Arena<T> arena_;
  const KeyMemory<T> memory_;
  Scores<T> scores_;  // of head h_
  const Rows<S> v_;
  Rows<S> dy_{};
  Rows<T> sums_{};
  const int begin_, end_, own_;  // the tile's keys, and this warp's first
  int last_query_ = 0, exact_ = 0;
  Piece<T> dk_[kPieces], dv_[kPieces];
};

}  // namespace vitrine::cuda
