// Attention that never keeps its weights (Dao et al. 2022): one block a tile of queries of a head, 32 keys at a time.
//
//   y = Σ e^(s − m)·v / Σ e^(s − m),   s = form(q·k),   m the largest score so far; where a larger one comes, sums scale down once.
//
// Keys and values pass through shared memory, the scores and sums of a warp stay in its registers, and its weights go through
// shared memory of its own into their product with the values. LASER's anchors move along (cuda/attention_laser.h).
#include "cuda/attention_laser.h"
#include "cuda/attention_tile.h"
#include "cuda/sum_exp.h"

namespace vitrine::cuda {
namespace {

template <class T>
struct ForwardMemory {
  Tile<T> q, k, v, p;
  LaserChannels<T> laser;

  VITRINE_HD ForwardMemory(Arena<T>& arena, int tile, int size, int channels)
      : q(arena.tile(tile, size)),
        k(arena.tile(kPieceColumns, size)),
        v(arena.tile(kPieceColumns, channels)),
        p(arena.tile(tile, kPieceColumns)),
        laser(arena, channels) {}
};

template <class T>
struct AttentionOutputs {
  Heads<T> y, sums;  // sums: LASER's
  T* lse;
};

template <class S, int kPieces>
class ForwardTile {
 public:
  using T = Wide<S>;

  __device__ ForwardTile(const AttentionInputs<S>& in, const AttentionOutputs<Wide<S>>& out, T* shared)
      : in_(in),
        out_(out),
        b_(blockIdx.z),
        h_(blockIdx.y),
        arena_(shared),
        memory_(arena_, in.tile, in.size, in.channels),
        scores_(in.scores.of_head(b_, h_)),
        k_(in.k.rows(b_, h_ / in.group)),
        v_(in.v.rows(b_, h_ / in.group)),
        begin_(static_cast<int>(blockIdx.x) * in.tile),
        end_(begin_ + in.tile < scores_.queries ? begin_ + in.tile : scores_.queries),
        own_(begin_ + static_cast<int>(threadIdx.x / kWarp) * kPieceRows) {}

  __device__ void run() {
    memory_.q.load(in_.q.rows(b_, h_), begin_, end_, in_.size);
    memory_.laser.start();
    for_each_block([&](int j) {
      if (in_.laser) {
        memory_.laser.advance(memory_.v);
        memory_.laser.transform(memory_.v);
        __syncthreads();
      }
      if (own_ < end_) add_block(j);
    });
    write_lse();
    for (int first = 0; first < in_.channels; first += kPieceColumns)
      in_.laser ? finish_laser(first, sums(first)) : finish_mean(first, sums(first));
  }

 private:
  /// Calls f(j) with keys and values from j on in shared memory.
  template <class F>
  __device__ void for_each_block(F&& f) const {
    const int last = scores_.last_key(end_ - 1);
    for (int j = scores_.first_key(begin_) / kPieceColumns * kPieceColumns; j < last; j += kPieceColumns) {
      __syncthreads();  // the block before has been read
      memory_.k.load(k_, j, scores_.keys, in_.size);
      memory_.v.load(v_, j, scores_.keys, in_.channels);
      if (in_.laser) memory_.laser.look(scores_, begin_, end_, j);
      __syncthreads();
      f(j);
    }
  }

  __device__ T* own(const Tile<T>& tile) const { return tile.row(own_ - begin_); }

  /// This warp's scores of its queries and the keys at hand.
  __device__ Piece<T> scores(int j) const {
    Piece<T> s;
    multiply_transposed(s, own(memory_.q), memory_.q.stride, memory_.k, in_.size);
    each([&](Place at, T& x) { x = scores_.score(x, own_ + at.row, j + at.column); }, s);
    return s;
  }

  __device__ void add_block(int j) {
    Piece<T> s = scores(j);
    T shift[2], factor[2], added[2] = {0, 0};
    rescale(s, shift, factor);
    each([&](Place at, T& x) { added[at.half] += x = math::exp(x - shift[at.half]); }, s);
    share(own(memory_.p), memory_.p.stride, s);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int first = piece * kPieceColumns;
      if (first >= in_.channels) break;
      each(
          [&](Place at, T& x) {
            x *= factor[at.half];
            const int d = first + at.column;
            if (in_.laser && d < in_.channels)
              x = x * memory_.laser.f[d] + memory_.laser.g[d] * total_[at.half];
          },
          sums_[piece]);
      multiply_by(sums_[piece], own(memory_.p), memory_.p.stride, memory_.v, first);
    }
    for (int half = 0; half < 2; ++half)
      total_[half] += merge_row(added[half], [](T x, T y) { return x + y; });
  }

  /// Finds the largest scores of the lane's rows so far: what to subtract from scores, and to multiply old sums by.
  __device__ void rescale(Piece<T>& s, T (&shift)[2], T (&factor)[2]) {
    T most[2] = {largest_[0], largest_[1]};
    each([&](Place at, T& x) { most[at.half] = math::max(most[at.half], x); }, s);
    for (int half = 0; half < 2; ++half) {
      most[half] = merge_row(most[half], [](T x, T y) { return math::max(x, y); });
      shift[half] = most[half] == minus_infinity<T>() ? T(0) : most[half];
      factor[half] = math::exp(largest_[half] - shift[half]);
      largest_[half] = most[half];
      total_[half] *= factor[half];
    }
  }

  __device__ T lse(int half) const {
    return total_[half] == T(0) ? minus_infinity<T>() : largest_[half] + math::log(total_[half]);
  }

  __device__ void write_lse() const {
    const int lane = threadIdx.x % kWarp;
    T* const lse_of_head = out_.lse + (int64_t{b_} * gridDim.y + h_) * scores_.queries;
    for (int half = 0; half < 2; ++half) {
      const int i = own_ + lane / 4 + 8 * half;
      if (lane % 4 == 0 && i < end_) lse_of_head[i] = lse(half);
    }
  }

  __device__ bool is_output(Place at, int first) const {
    return own_ + at.row < end_ && first + at.column < in_.channels;
  }

  /// The sums of channels from `first` on.
  __device__ Piece<T> sums(int first) const {
    Piece<T> x;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      if (piece * kPieceColumns == first) x = sums_[piece];
    return x;
  }

  __device__ void finish_mean(int first, Piece<T> averages) const {
    const Rows<T> y = out_.y.rows(b_, h_);
    each(
        [&](Place at, T& x) {
          if (is_output(at, first))
            y.row(own_ + at.row)[first + at.column] = total_[at.half] == T(0) ? T(0) : x / total_[at.half];
        },
        averages);
  }

  __device__ void finish_laser(int first, Piece<T> averages) const {
    const auto& laser = memory_.laser;
    const Rows<T> y = out_.y.rows(b_, h_), sums = out_.sums.rows(b_, h_);
    int repairs = 0;
    each(
        [&](Place at, T& x) {
          if (!is_output(at, first)) return;
          const int i = own_ + at.row, d = first + at.column;
          const bool alive = total_[at.half] != T(0);
          x = alive ? x / total_[at.half] : T(0);
          y.row(i)[d] = alive ? laser.anchor(d).read(x) : T(0);
          sums.row(i)[d] = x;
          if (!alive || !laser.anchor(d).out_of_range(x, scores_.last_key(i) - scores_.first_key(i))) return;
          x = T(-1);  // as read_exactly() knows it
          repairs = 1;
        },
        averages);
    if (!merge_block(repairs, [](int a, int b) { return a | b; })) return;
    Piece<SumExp<T>> exact = read_exactly(first, averages);
    each(
        [&](Place at, T& x, SumExp<T>& all) {
          if (!is_output(at, first) || !laser.anchor(first + at.column).was_read_exactly(x)) return;
          const int i = own_ + at.row, d = first + at.column;
          const T read = all.largest - lse(at.half) + math::log(all.total);
          y.row(i)[d] = read;
          sums.row(i)[d] = read - laser.c[d];
        },
        averages, exact);
  }

  /// Σ e^(s + v) over all keys, for the elements of channels from `first` on that are marked.
  __device__ Piece<SumExp<T>> read_exactly(int first, Piece<T>& marks) const {
    Piece<SumExp<T>> exact;
    each([](Place, SumExp<T>& all) { all = {minus_infinity<T>(), T(0)}; }, exact);
    for_each_block([&](int j) {
      if (own_ >= end_) return;
      Piece<T> s = scores(j);
      share(own(memory_.p), memory_.p.stride, s);
      each(
          [&](Place at, T& x, SumExp<T>& all) {
            const int d = first + at.column;
            if (!is_output(at, first) || !memory_.laser.anchor(d).was_read_exactly(x)) return;
            for (int c = 0; c < kPieceColumns; ++c) {
              const T score = own(memory_.p)[at.row * memory_.p.stride + c];
              if (score != minus_infinity<T>())
                all = merge(all, SumExp<T>{score + memory_.v.row(c)[d], T(1)});
            }
          },
          marks, exact);
    });
    return exact;
  }

  const AttentionInputs<S>& in_;
  const AttentionOutputs<T>& out_;
  const int b_, h_;
  Arena<T> arena_;
  const ForwardMemory<T> memory_;
  const Scores<T> scores_;
  const Rows<S> k_, v_;
  const int begin_, end_, own_;  // the tile's queries, and this warp's first
  Piece<T> sums_[kPieces];
  T largest_[2] = {minus_infinity<T>(), minus_infinity<T>()}, total_[2] = {0, 0};
};

template <class S, int kPieces>
__global__ void attention_kernel(AttentionInputs<S> in, AttentionOutputs<Wide<S>> out) {
  VITRINE_DYNAMIC_SHARED(Wide<S>, shared);
  ForwardTile<S, kPieces>(in, out, shared).run();
}

}  // namespace

void attention(Tensor& y, Tensor& lse, Tensor& sums, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  if (lse.numel() == 0) return;
  const auto launch = [&](auto type, const auto& in, auto pieces) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    constexpr int kPieces = decltype(pieces)::value;
    const AttentionOutputs<T> out{Heads<T>::of(y), Heads<T>::of(sums), lse.data<T>()};
    const size_t bytes = bytes_of<ForwardMemory<T>, T>(in.tile, in.size, in.channels);
    allow_shared(attention_kernel<S, kPieces>, bytes);
    VITRINE_LAUNCH((attention_kernel<S, kPieces>), tile_grid(q, in.tile), tile_threads(in.tile), bytes, in,
                   out);
  };
  visit_attention("attention", q, k, v, bias, slopes, allowed, form, launch);
}

}  // namespace vitrine::cuda
