// Attention tile by tile. The scores of some queries and a block of keys stay in cache and are
// never written to memory; the backward computes them again from log Σ e^s. Dao et al. 2022. For
// LASER see ops/cpu/attention/rows.h.
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "core/simd/row_functions.h"
#include "ops/cpu/attention/rows.h"
#include "ops/cpu/attention/tile.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The forward of one tile of queries of one head.
template <class T>
class ForwardTile {
 public:
  ForwardTile(const AttentionHead<T>& head, QueryTile tile, HeadRows<T> v, int64_t channels, HeadRows<T> y,
              HeadRows<T> sums, T* lse)
      : head_(head), tile_(tile), v_(v), channels_(channels), y_(y), sums_(sums), lse_(lse) {}

  void run() {
    const int64_t rows = tile_.rows();
    largest_.fill(-kInfinity<T>);
    total_.fill(0);
    for (int64_t r = 0; r < rows; ++r) std::fill_n(sums_.row(tile_.begin + r), channels_, T(0));
    if (head_.form.read == AttentionRead::mean) {
      for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock)
        add_block(j, std::min(kKeysPerBlock, tile_.last - j), v_.row(j), v_.stride);
      for (int64_t r = 0; r < rows; ++r) finish_mean(r);
    } else {
      LaserTile<T> laser(head_, tile_, v_, channels_);
      for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock) {
        const int64_t n = std::min(kKeysPerBlock, tile_.last - j);
        add_block(j, n, laser.values(j, n), channels_);
      }
      for (int64_t r = 0; r < rows; ++r) finish_laser(r, laser);
    }
  }

 private:
  /// sums += e^(s − largest)·values for a block of keys. The previous sums are first scaled to the
  /// new largest score.
  void add_block(int64_t j, int64_t n, const T* values, int64_t stride) {
    const int64_t rows = tile_.rows();
    const int64_t width = tile_.stride();
    T* const s = thread_buffer<T, Use::scores>(rows * width);
    attention_scores(head_, tile_.begin, rows, j, n, s, width);
    for (int64_t r = 0; r < rows; ++r) {
      T* const row = s + r * width;
      const Visible seen = visible(head_, tile_.begin + r, j, n);
      const T before = largest_[r];
      if (seen.size() > 0) largest_[r] = std::max(before, vecmath::max(row + seen.begin, seen.size()));
      const T shift = largest_[r] == -kInfinity<T> ? 0 : largest_[r];
      if (before != largest_[r] && before != -kInfinity<T>) {
        const T factor = std::exp(before - shift);
        total_[r] *= factor;
        vecmath::scale(sums_.row(tile_.begin + r), sums_.row(tile_.begin + r), factor, channels_);
      }
      std::fill(row, row + std::min(seen.begin, n), T(0));
      if (seen.size() > 0)
        total_[r] += vecmath::exp_shifted_sum(row + seen.begin, row + seen.begin, shift, seen.size());
      std::fill(row + std::max(seen.begin, seen.end), row + n, T(0));
    }
    gemm<T, T>(Trans::no, Trans::no, rows, channels_, n, T(1), s, width, values, stride, T(1),
               sums_.row(tile_.begin), sums_.stride);
  }

  /// Returns the factor for a row's sums; writes log Σ e^s.
  T inverse_total(int64_t r) {
    const bool alive = total_[r] != 0;
    lse_[tile_.begin + r] = alive ? largest_[r] + std::log(total_[r]) : -kInfinity<T>;
    return alive ? 1 / total_[r] : 0;
  }

  void finish_mean(int64_t r) {
    T* const y = y_.row(tile_.begin + r);
    vecmath::scale(y, y, inverse_total(r), channels_);
  }

  void finish_laser(int64_t r, LaserTile<T>& laser) {
    const int64_t i = tile_.begin + r;
    T* const y = y_.row(i);
    T* const sums = sums_.row(i);
    const T factor = inverse_total(r);
    vecmath::scale(sums, sums, factor, channels_);
    if (factor == 0) return std::fill_n(y, channels_, T(0)), void();
    laser_finish(y, sums, laser.anchor(), laser.delta(), channels_);
    const auto channels = laser.out_of_range(sums, head_.last_key(i) - head_.first_key(i));
    for (const ExactRead<T>& read : read_exactly(head_, i, channels, v_))
      y[read.channel] = read.largest + std::log(read.total) - lse_[i];
  }

  const AttentionHead<T>& head_;
  QueryTile tile_;
  HeadRows<T> v_;
  int64_t channels_;
  HeadRows<T> y_, sums_;  // y_ and sums_ are the same for a mean
  T* lse_;
  std::array<T, kMostQueries> largest_, total_;
};

template <class T>
void forward(Tensor& y, Tensor& lse, Tensor& sums, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  const int64_t heads = q.size(1), queries = q.size(2), tiles = tiles_of(queries);
  const int64_t cost = queries / std::max<int64_t>(1, tiles) * k.size(2) *
                       (q.size(3) + v.size(3));  // of a tile; small in decoding
  parallel_for(0, q.size(0) * heads * tiles, grain_for(cost), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t batch = item / tiles / heads, h = item / tiles % heads;
      const AttentionHead<T> head(form, q, k, bias, slopes, allowed, batch, h);
      ForwardTile<T>(head, query_tile(head, item % tiles), HeadRows<T>::of(v, batch, h / (heads / k.size(1))),
                     v.size(3), HeadRows<T>::of(y, batch, h),
                     HeadRows<T>::of(sums.defined() ? sums : y, batch, h),
                     lse.data<T>() + (batch * heads + h) * queries)
          .run();
    }
  });
}

}  // namespace

void attention(Tensor& y, Tensor& lse, Tensor& sums, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& bias, const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  if (q.dtype() == DType::float32) return forward<float>(y, lse, sums, q, k, v, bias, slopes, allowed, form);
  check(q.dtype() == DType::float64, "attention: its kernel wants float32 or float64, got {}",
        name(q.dtype()));
  forward<double>(y, lse, sums, q, k, v, bias, slopes, allowed, form);
}

}  // namespace vitrine::cpu
