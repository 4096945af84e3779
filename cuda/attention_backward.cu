// The backward of attention. With P = e^(s − lse), computed again, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v − c)∘(Pᵀ·H). Elements that the forward
// read exactly have H = 0 and get their terms one by one: b = P·e^(v − o), dv += dy·b, ds += dy·b.
//
// Two kernels, so that no sum has two writers: in the first a block owns queries, in the second keys. The first leaves D and
// LASER's anchors for the second. That costs two products more than the textbook's five, and gives the same bits in every run.
#include "core/creation.h"
#include "cuda/attention_laser.h"
#include "cuda/attention_tile.h"

namespace vitrine::cuda {
namespace {

template <class S>
struct Cotangents {
  using T = Wide<S>;
  Heads<S> dy;
  Heads<T> sums;  // y for a mean
  const T* lse;
};

/// What the first kernel leaves for the second, per head.
template <class T>
struct Kept {
  T* correction;  // D [Tq]
  T* anchors;     // [tiles, 2, Dv]
  int* exact;     // [tiles]: whether any element was read exactly
};

/// dy·b of one element (i, d) and key, where log P = `log_weight`; 0 unless the element was read exactly.
template <class T>
__device__ T exact_term(const Anchor<T>& anchor, T sum, T dy, T v, T log_weight) {
  return anchor.was_read_exactly(sum) ? dy * math::exp(log_weight + ((v - anchor.c) - sum)) : T(0);
}

/// log P of a score: −∞ where it is hidden, and in a row that sees nothing, whose lse is −∞.
template <class T>
__device__ T log_weight(T score, T lse) {
  return score == -static_cast<T>(INFINITY) ? score : score - lse;
}

/// P·(dP − D), which is 0 where P is 0 even if dP is infinite.
template <class T>
__device__ T score_gradient(T p, T dp, T correction) {
  return p == T(0) ? T(0) : p * (dp - correction);
}

/// Stores a warp's piece of a gradient, times `by`: its columns from `first` on and rows from `own` on, as far as there are any.
template <class S, class T>
__device__ void write(const Rows<S>& x, Piece<T>& piece, int own, int end, int first, int columns, T by) {
  each(
      [&](Place at, T& value) {
        if (own + at.row < end && first + at.column < columns)
          x.row(own + at.row)[first + at.column] = S(value * by);
      },
      piece);
}

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
      write(dq.rows(b_, h_), dq_[piece], own_, end_, piece * kPieceColumns, in_.size, scores_.scale);
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
      write(dk.rows(b_, blockIdx.y), dk_[piece], own_, end_, first, in_.size, scores_.scale);
      write(dv.rows(b_, blockIdx.y), dv_[piece], own_, end_, first, in_.channels, T(1));
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

template <class S, int kPieces>
__global__ void query_gradients_kernel(Heads<S> dq, AttentionInputs<S> in, Cotangents<S> out,
                                       Kept<Wide<S>> kept) {
  VITRINE_DYNAMIC_SHARED(Wide<S>, shared);
  QueryGradients<S, kPieces>(in, out, kept, shared).run(dq);
}

template <class S, int kPieces>
__global__ void key_gradients_kernel(Heads<S> dk, Heads<S> dv, AttentionInputs<S> in, Cotangents<S> out,
                                     Kept<Wide<S>> kept, int tile) {
  VITRINE_DYNAMIC_SHARED(Wide<S>, shared);
  KeyGradients<S, kPieces>(in, out, kept, tile, shared).run(dk, dv);
}

}  // namespace

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& sums, const Tensor& lse,
                        const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                        const AttentionForm& form) {
  const int64_t heads = q.size(0) * q.size(1);
  if (heads == 0) return;
  visit_attention("attention_backward", q, k, v, bias, slopes, allowed, form,
                  [&](auto type, const auto& in, auto pieces) {
                    using S = typename decltype(type)::type;
                    using T = Wide<S>;
                    constexpr int kPieces = decltype(pieces)::value;
                    const int64_t tiles = (q.size(2) + in.tile - 1) / in.tile;
                    Tensor corrections = empty({heads, q.size(2)}, lse.dtype(), q.device());
                    Tensor anchors =
                        empty({in.laser ? heads * tiles * 2 * in.channels : 0}, lse.dtype(), q.device());
                    Tensor exact = empty({in.laser ? heads * tiles : 0}, DType::int32, q.device());
                    const Kept<T> kept{corrections.data<T>(), anchors.data<T>(), exact.data<int32_t>()};
                    const Cotangents<S> out{Heads<S>::of(dy), Heads<T>::of(sums), lse.data<T>()};
                    if (tiles > 0) {
                      constexpr auto kernel = query_gradients_kernel<S, kPieces>;
                      const size_t bytes = bytes_of<QueryMemory<T>, T>(in.tile, in.size, in.channels);
                      allow_shared(kernel, bytes);
                      VITRINE_LAUNCH(kernel, tile_grid(q, in.tile), tile_threads(in.tile), bytes,
                                     Heads<S>::of(dq), in, out, kept);
                    }
                    if (k.size(2) > 0) {
                      constexpr auto kernel = key_gradients_kernel<S, kPieces>;
                      const int tile = tile_rows<T>(k.size(2), in.size, in.channels);
                      const size_t bytes = bytes_of<KeyMemory<T>, T>(tile, in.size, in.channels);
                      allow_shared(kernel, bytes);
                      VITRINE_LAUNCH(kernel, tile_grid(k, tile), tile_threads(tile), bytes, Heads<S>::of(dk),
                                     Heads<S>::of(dv), in, out, kept, tile);
                    }
                  });
}

}  // namespace vitrine::cuda
