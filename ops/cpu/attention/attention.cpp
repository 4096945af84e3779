// Attention tile by tile. The scores of some queries and a block of keys stay in cache and are
// never written to memory; the backward computes them again from log Σ e^s. Dao et al. 2022. For
// LASER see ops/cpu/attention/rows.h.
//
// S is the type of q, k, v and y in memory. bfloat16 operands are multiplied as they are and summed
// in float32; weights are rounded to bfloat16 before they multiply the values. Everything else is in
// T = AccumulatorOf<S>.
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
  KeyBlocks<S, Use::packed_values> values{Trans::no};  // not for LASER, whose values belong to a tile
  HeadRows<S> v{}, y{}, error{};                       // `error` is null, or for what y loses by rounding
  HeadRows<T> sums{};                                  // null, or for LASER's sums
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
    largest_.fill(-kInfinity<T>);
    total_.fill(0), rounded_total_.fill(0);
    for (int64_t r = 0; r < tile_.rows(); ++r) std::fill_n(sums_.row(r), io_.channels, T(0));
    if (head_.form.read == AttentionRead::mean) {
      for_each_block([&](int64_t j, int64_t n) {
        const S* const weights = block_weights(j, n);
        io_.values.multiply(tile_.rows(), T(1), weights, stride_, j, n, T(1), sums_.data, sums_.stride);
      });
      for (int64_t r = 0; r < tile_.rows(); ++r) finish_mean(r);
    } else {
      LaserTile<S> laser(head_, tile_, io_.v, io_.channels);
      for_each_block([&](int64_t j, int64_t n) {
        const S* const weights = block_weights(j, n);
        gemm<S, T>(Trans::no, Trans::no, tile_.rows(), io_.channels, n, T(1), weights, stride_,
                   laser.values(j, n), io_.channels, T(1), sums_.data, sums_.stride);
      });
      for (int64_t r = 0; r < tile_.rows(); ++r) finish_laser(r, laser);
    }
  }

 private:
  /// The sums of the tile's rows are LASER's, or y itself where it is wide, or a buffer.
  HeadRows<T> place_of_sums() const {
    if (io_.sums.data != nullptr) return {io_.sums.row(tile_.begin), io_.sums.stride};
    if constexpr (std::is_same_v<S, T>) return {io_.y.row(tile_.begin), io_.y.stride};
    return {thread_buffer<T, Use::sums>(tile_.rows() * io_.channels), io_.channels};
  }

  template <class F>
  void for_each_block(F&& f) {
    for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock)
      f(j, std::min(kKeysPerBlock, tile_.last - j));
  }

  /// e^(s − largest) for a block of keys, rounded to S. The previous sums are first scaled to the new
  /// largest score.
  const S* block_weights(int64_t j, int64_t n) {
    const int64_t rows = tile_.rows();
    T* const s = thread_buffer<T, Use::scores>(rows * stride_);
    S* const weights = weights_in(s);
    io_.keys.multiply(rows, static_cast<T>(head_.form.scale), head_.q.row(tile_.begin), head_.q.stride, j, n,
                      T(0), s, stride_);
    finish_scores(head_, tile_.begin, rows, j, n, s, stride_);
    for (int64_t r = 0; r < rows; ++r) {
      T* const row = s + r * stride_;
      const Visible seen = visible(head_, tile_.begin + r, j, n);
      const T before = largest_[r];
      if (seen.size() > 0) largest_[r] = std::max(before, vecmath::max(row + seen.begin, seen.size()));
      const T shift = largest_[r] == -kInfinity<T> ? 0 : largest_[r];
      if (before != largest_[r] && before != -kInfinity<T>) {
        const T factor = std::exp(before - shift);
        total_[r] *= factor, rounded_total_[r] *= factor;
        vecmath::scale(sums_.row(r), sums_.row(r), factor, io_.channels);
      }
      S* const to = weights + r * stride_;
      std::fill(to, to + std::min(seen.begin, n), S(0));
      if (seen.size() > 0) {
        const WeightSums<S> sums = attention_weights(to + seen.begin, row + seen.begin, shift, seen.size());
        total_[r] += sums.exact, rounded_total_[r] += sums.rounded;
      }
      std::fill(to + std::max(seen.begin, seen.end), to + n, S(0));
    }
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
    const bool alive = total_[r] != 0;
    io_.lse[tile_.begin + r] = alive ? largest_[r] + std::log(total_[r]) : -kInfinity<T>;
    return alive ? 1 / rounded_total_[r] : 0;
  }

  void finish_mean(int64_t r) {
    T* const sums = sums_.row(r);
    vecmath::scale(sums, sums, inverse_total(r), io_.channels);
    if constexpr (!std::is_same_v<S, T>) {
      S* const y = io_.y.row(tile_.begin + r);
      vecmath::convert(y, sums, io_.channels);
      if (io_.error.data == nullptr) return;
      for (int64_t c = 0; c < io_.channels; ++c) sums[c] -= static_cast<T>(y[c]);
      vecmath::convert(io_.error.row(tile_.begin + r), sums, io_.channels);
    }
  }

  void finish_laser(int64_t r, LaserTile<S>& laser) {
    const int64_t i = tile_.begin + r;
    S* const y = io_.y.row(i);
    T* const sums = sums_.row(r);
    const T factor = inverse_total(r);
    vecmath::scale(sums, sums, factor, io_.channels);
    if (factor == 0) return std::fill_n(y, io_.channels, S(0)), void();
    laser_finish(y, sums, laser.anchor(), laser.delta(), io_.channels);
    const auto channels = laser.out_of_range(sums, head_.last_key(i) - head_.first_key(i));
    for (const ExactRead<T>& read : read_exactly(head_, i, channels, io_.v))
      y[read.channel] = static_cast<S>(read.largest + std::log(read.total) - io_.lse[i]);
  }

  const AttentionHead<S>& head_;
  QueryTile tile_;
  ForwardHead<S>& io_;
  const int64_t stride_;
  HeadRows<T> sums_;
  std::array<T, kMostQueries> largest_, total_, rounded_total_;
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
                     io.values.refer_to(io.v, head.keys, io.channels, packs_keys(head) && !laser);
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
