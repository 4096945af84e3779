// Attention tile by tile. The scores of some queries and a block of keys stay in cache and are
// never written to memory; the backward computes them again from log Σ e^s. Dao et al. 2022. For
// LASER see ops/cpu/attention/rows.h.
//
// S is the type of q, k, v and y in memory. bfloat16 operands are multiplied as they are and summed
// in float32. Weights are rounded to bfloat16 before they multiply the values. Everything else is
// in T = AccumulatorOf<S>.
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "core/simd/row_functions.h"
#include "ops/cpu/attention/key_blocks.h"
#include "ops/cpu/attention/rows.h"
#include "ops/cpu/attention/tile.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// What the tiles of a head read and write. The packed keys and values stay from tile to tile.
template <class S>
struct ForwardHead {
  using T = AccumulatorOf<S>;
  KeyBlocks<S, Use::packed_keys> keys{Trans::yes};
  LaserHead<S> laser;
  /// v, or F of LASER. LASER has another F for each tile if the head has none.
  KeyBlocks<S, Use::packed_values> values{Trans::no};
  HeadRows<S> v{}, y{}, error{};  // `error`: null, or what y loses by rounding
  HeadRows<T> sums{};             // null, or for LASER's sums
  T* lse = nullptr;
  int64_t channels = 0;
};

/// The forward of one tile of queries of one head.
template <class S>
class ForwardTile {
  using T = AccumulatorOf<S>;

 public:
  ForwardTile(const AttentionHead<S>& head, QueryTile tile, ForwardHead<S>& io)
      : head_(head), tile_(tile), io_(io), stride_(tile.stride()), sums_(place_of_sums()) {}

  void run() {
    running_.fill({-kInfinity<T>, 0, 0, 1});
    if (head_.form.read == AttentionRead::mean) {
      sum_head_values();
      finish_mean();
    } else if (io_.laser.is_shared()) {
      sum_head_values();
      finish_laser(io_.laser.anchors());
    } else {
      LaserTile<S> laser(head_, tile_, io_.v, io_.channels);
      for_each_block([&](int64_t j, int64_t n, T beta) {
        const S* const weights = block_weights(j, n);
        gemm<S, T>(Trans::no, Trans::no, tile_.rows(), io_.channels, n, T(1), weights, stride_,
                   laser.values(j, n), io_.channels, beta, sums_.data, sums_.stride);
      });
      finish_laser(laser.anchors());
    }
  }

 private:
  /// The sums of the weights times the head's values.
  void sum_head_values() {
    for_each_block([&](int64_t j, int64_t n, T beta) {
      const S* const weights = block_weights(j, n);
      io_.values.multiply(tile_.rows(), T(1), weights, stride_, j, n, beta, sums_.data, sums_.stride);
    });
  }

  /// The sums of the tile's rows are LASER's, or y itself where it is wide, or a buffer.
  HeadRows<T> place_of_sums() const {
    if (io_.sums.data != nullptr) return {io_.sums.row(tile_.begin), io_.sums.stride};
    if constexpr (std::is_same_v<S, T>) return {io_.y.row(tile_.begin), io_.y.stride};
    return {thread_buffer<T, Use::sums>(tile_.rows() * io_.channels), io_.channels};
  }

  /// Calls f(j, n, beta) for each block of keys that is seen, with beta 0 for the first, which has
  /// no sums yet. Without such a block the sums become 0.
  template <class F>
  void for_each_block(F&& f) {
    T beta = 0;
    for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock) {
      const int64_t n = std::min(kKeysPerBlock, tile_.last - j);
      if (!sees_any(head_, tile_, j, n)) continue;
      f(j, n, beta);
      beta = 1;
    }
    if (beta == 0)
      for (int64_t r = 0; r < tile_.rows(); ++r) std::fill_n(sums_.row(r), io_.channels, T(0));
  }

  /// e^(s − largest) for a block of keys, rounded to S. The previous sums are scaled to the new
  /// largest scores.
  const S* block_weights(int64_t j, int64_t n) {
    const int64_t rows = tile_.rows();
    T* const s = thread_buffer<T, Use::scores>(rows * stride_);
    S* const weights = weights_in(s);
    io_.keys.multiply(rows, static_cast<T>(head_.form.scale), head_.q.row(tile_.begin), head_.q.stride, j, n,
                      T(0), s, stride_);
    finish_scores(head_, tile_.begin, rows, j, n, s, stride_);
    attention_weights(VisibleRows(head_, tile_, j, n), weights, s, running_.data());
    for (int64_t r = 0; r < rows; ++r)
      if (running_[r].factor != 1)
        vecmath::scale(sums_.row(r), sums_.row(r), running_[r].factor, io_.channels);
    return weights;
  }

  /// The place for weights: that of the scores where these have the same type.
  S* weights_in(T* scores) const {
    if constexpr (std::is_same_v<S, T>)
      return scores;
    else
      return thread_buffer<S, Use::weights>(tile_.rows() * stride_);
  }

  /// Returns the factor for a row's sums; writes log Σ e^s.
  T inverse_total(int64_t r) {
    const RunningSoftmax<T>& row = running_[r];
    const bool alive = row.total != 0;
    io_.lse[tile_.begin + r] = alive ? row.largest + std::log(row.total) : -kInfinity<T>;
    return alive ? 1 / row.rounded_total : 0;
  }

  void finish_mean() {
    std::array<T, kMostQueries> factor;
    for (int64_t r = 0; r < tile_.rows(); ++r) factor[r] = inverse_total(r);
    scale_rows(tile_.rows(), io_.channels, io_.y.row(tile_.begin),
               io_.error.data ? io_.error.row(tile_.begin) : nullptr, io_.y.stride, io_.error.stride,
               sums_.data, sums_.stride, factor.data());
  }

  void finish_laser(const LaserAnchors<T>& laser) {
    for (int64_t r = 0; r < tile_.rows(); ++r) {
      const int64_t i = tile_.begin + r;
      S* const y = io_.y.row(i);
      T* const sums = sums_.row(r);
      const T factor = inverse_total(r);
      vecmath::scale(sums, sums, factor, io_.channels);
      if (factor == 0) {
        std::fill_n(y, io_.channels, S(0));
        continue;
      }
      laser_finish(y, sums, laser.anchor.data(), laser.deltas(), io_.channels);
      const auto channels = laser.out_of_range(sums, head_.last_key(i) - head_.first_key(i));
      for (const ExactRead<T>& read : read_exactly(head_, i, channels, io_.v))
        y[read.channel] = static_cast<S>(read.largest + std::log(read.total) - io_.lse[i]);
    }
  }

  const AttentionHead<S>& head_;
  QueryTile tile_;
  ForwardHead<S>& io_;
  const int64_t stride_;
  HeadRows<T> sums_;
  std::array<RunningSoftmax<T>, kMostQueries> running_;
};

/// How many tiles a thread takes at once. Tiles of a head share its packed keys.
int64_t tiles_at_once(int64_t heads, int64_t tiles, int64_t cost_of_tile) {
  constexpr int64_t kChunks = 16;
  return std::max(grain_for(cost_of_tile),
                  std::clamp<int64_t>(heads * tiles / kChunks, 1, std::max<int64_t>(tiles, 1)));
}

template <class S>
void forward(Tensor& y, Tensor& lse, Tensor& kept, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  using T = AccumulatorOf<S>;
  const int64_t heads = q.size(1), group = heads / k.size(1), queries = q.size(2), tiles = tiles_of(queries);
  const bool laser = form.read == AttentionRead::laser;
  const int64_t cost = queries / std::max<int64_t>(1, tiles) * k.size(2) *
                       (q.size(3) + v.size(3));  // of a tile; small in decoding
  parallel_for(0, q.size(0) * heads * tiles, tiles_at_once(q.size(0) * heads, tiles, cost),
               [&](int64_t begin, int64_t end) {
                 ForwardHead<S> io;
                 io.channels = v.size(3);
                 int64_t packed = -1;  // the batch and key head that `io` refers to
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t batch = item / tiles / heads, h = item / tiles % heads, key_head = h / group;
                   const AttentionHead<S> head(form, q, k, bias, slopes, allowed, batch, h);
                   if (packed != batch * heads + key_head) {
                     packed = batch * heads + key_head;
                     io.v = HeadRows<S>::of(v, batch, key_head);
                     io.keys.refer_to(head.k, head.keys, head.size, packs_keys(head));
                     if (laser) io.laser.refer_to(head, io.v, io.channels);
                     const bool shared = io.laser.is_shared();
                     io.values.refer_to(shared ? io.laser.values() : io.v, head.keys, io.channels,
                                        packs_keys(head) && (!laser || shared));
                   }
                   io.y = HeadRows<S>::of(y, batch, h);
                   if (kept.defined() && laser) io.sums = HeadRows<T>::of(kept, batch, h);
                   if (kept.defined() && !laser) io.error = HeadRows<S>::of(kept, batch, h);
                   io.lse = lse.data<T>() + (batch * heads + h) * queries;
                   ForwardTile<S>(head, query_tile(head, item % tiles), io).run();
                 }
               });
}

}  // namespace

void attention(Tensor& y, Tensor& lse, Tensor& kept, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  const auto run = [&](auto f) { f(y, lse, kept, q, k, v, bias, slopes, allowed, form); };
  switch (q.dtype()) {
    case DType::float32: return run(forward<float>);
    case DType::float64: return run(forward<double>);
    case DType::bfloat16: return run(forward<bfloat16>);
    default: fail("attention: its kernel wants float32, float64 or bfloat16, got {}", name(q.dtype()));
  }
}

}  // namespace vitrine::cpu
