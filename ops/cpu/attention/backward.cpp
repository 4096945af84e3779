// The backward of attention. With P = e^(s − lse), recomputed, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v −
// c)∘(Pᵀ·H). Elements that the forward read exactly have H = 0, and their terms are added one by
// one: b = e^(s + v)/Σ e^(s + v), dv += dy·b, ds += dy·b. One thread owns a key head, so that two
// threads never add to the same element.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "core/simd/row_functions.h"
#include "ops/cpu/attention/rows.h"
#include "ops/cpu/attention/tile.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

template <class T>
void clear(HeadRows<T> x, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) std::fill_n(x.row(i), columns, T(0));
}

/// The arrays that the backward of one query head reads and adds to.
template <class T>
struct Gradients {
  HeadRows<T> v, sums, dy, dq, dk, dv;
  const T* lse;
  int64_t channels;
};

template <class T>
class BackwardTile {
 public:
  BackwardTile(const AttentionHead<T>& head, QueryTile tile, const Gradients<T>& g)
      : head_(head),
        tile_(tile),
        g_(g),
        stride_(tile.stride()),
        scores_(thread_buffer<T, Use::scores>(tile.rows() * stride_)),
        slope_of_cap_(head.form.softcap > 0 ? thread_buffer<T, Use::slope_of_cap>(tile.rows() * stride_)
                                            : nullptr),
        dscores_(thread_buffer<T, Use::dscores>(tile.rows() * stride_)) {}

  void run() {
    if (tile_.last <= tile_.first) return;
    if (head_.form.read == AttentionRead::laser) return run_laser();
    for (int64_t r = 0; r < tile_.rows(); ++r)
      correction_[r] = vecmath::dot(g_.dy.row(tile_.begin + r), g_.sums.row(tile_.begin + r), g_.channels);
    for_each_block([&](int64_t j, int64_t n) {
      weights(j, n);
      score_gradients(n, g_.dy.row(tile_.begin), g_.dy.stride, g_.v.row(j), g_.v.stride);
      gemm<T, T>(Trans::yes, Trans::no, n, g_.channels, tile_.rows(), T(1), scores_, stride_,
                 g_.dy.row(tile_.begin), g_.dy.stride, T(1), g_.dv.row(j), g_.dv.stride);
      add_query_and_key_gradients(j, n);
    });
  }

 private:
  template <class F>
  void for_each_block(F&& f) {
    for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock)
      f(j, std::min(kKeysPerBlock, tile_.last - j));
  }

  void run_laser() {
    LaserTile<T> laser(head_, tile_, g_.v, g_.channels);
    const std::vector<ExactRead<T>> repairs = cotangents(laser);
    T* const product = thread_buffer<T, Use::products>(tile_.keys() * g_.channels);
    T* const exact = repairs.empty() ? nullptr : thread_buffer<T, Use::exact>(tile_.rows() * stride_);
    for_each_block([&](int64_t j, int64_t n) {
      attention_scores(head_, tile_.begin, tile_.rows(), j, n, scores_, stride_, slope_of_cap_);
      if (exact != nullptr) read_backward_exactly(repairs, j, n, exact);
      exponentiate(j, n);
      const T* const values = laser.values(j, n);
      score_gradients(n, cotangents_.data(), g_.channels, values, g_.channels);
      if (exact != nullptr)
        for (int64_t r = 0; r < tile_.rows(); ++r)
          for (int64_t c = 0; c < n; ++c) dscores_[r * stride_ + c] += exact[r * stride_ + c];
      gemm<T, T>(Trans::yes, Trans::no, n, g_.channels, tile_.rows(), T(1), scores_, stride_,
                 cotangents_.data(), g_.channels, T(0), product, g_.channels);
      for (int64_t r = 0; r < n; ++r)
        laser_add_value_gradient(g_.dv.row(j + r), product + r * g_.channels, values + r * g_.channels,
                                 laser.delta(), g_.channels);
      add_query_and_key_gradients(j, n);
    });
  }

  void weights(int64_t j, int64_t n) {
    attention_scores(head_, tile_.begin, tile_.rows(), j, n, scores_, stride_, slope_of_cap_);
    exponentiate(j, n);
  }

  /// Turns scores into weights, 0 for hidden keys.
  void exponentiate(int64_t j, int64_t n) {
    for (int64_t r = 0; r < tile_.rows(); ++r) {
      T* const row = scores_ + r * stride_;
      const T lse = g_.lse[tile_.begin + r];
      Visible seen = visible(head_, tile_.begin + r, j, n);
      if (lse == -kInfinity<T> || seen.size() == 0) seen = {n, n};
      std::fill(row, row + seen.begin, T(0));
      vecmath::exp_shifted_scaled(row + seen.begin, row + seen.begin, lse, T(1), seen.size());
      std::fill(row + seen.end, row + n, T(0));
    }
  }

  /// ds = P∘(dy·valuesᵀ − D), through the softcap.
  void score_gradients(int64_t n, const T* dy, int64_t dy_stride, const T* values, int64_t stride) {
    gemm<T, T>(Trans::no, Trans::yes, tile_.rows(), n, g_.channels, T(1), dy, dy_stride, values, stride, T(0),
               dscores_, stride_);
    // If one block holds all keys, D is Σ P·dP/Σ P, computed from the same numbers from which it is
    // subtracted. A single key then leaves exactly 0, and the rounding of lse, which scales a row
    // of P, does not matter.
    const bool all_keys = head_.form.read == AttentionRead::mean && tile_.last - tile_.first <= kKeysPerBlock;
    for (int64_t r = 0; r < tile_.rows(); ++r) {
      T *const ds = dscores_ + r * stride_, *const p = scores_ + r * stride_;
      if (all_keys)
        correction_[r] = vecmath::dot(ds, p, n) / std::max(vecmath::sum(p, n), std::numeric_limits<T>::min());
      vecmath::multiply_shifted(ds, ds, correction_[r], p, n);
    }
  }

  void add_query_and_key_gradients(int64_t j, int64_t n) {
    if (slope_of_cap_ != nullptr)
      for (int64_t r = 0; r < tile_.rows(); ++r) {
        T* const ds = dscores_ + r * stride_;
        vecmath::multiply(ds, ds, slope_of_cap_ + r * stride_, n);
      }
    const T scale = static_cast<T>(head_.form.scale);
    gemm<T, T>(Trans::no, Trans::no, tile_.rows(), head_.size, n, scale, dscores_, stride_, head_.k.row(j),
               head_.k.stride, T(1), g_.dq.row(tile_.begin), g_.dq.stride);
    gemm<T, T>(Trans::yes, Trans::no, n, head_.size, tile_.rows(), scale, dscores_, stride_,
               head_.q.row(tile_.begin), head_.q.stride, T(1), g_.dk.row(j), g_.dk.stride);
  }

  /// Computes H and D of LASER; returns the elements that the forward read exactly.
  std::vector<ExactRead<T>> cotangents(const LaserTile<T>& laser) {
    std::vector<ExactRead<T>> repairs;
    cotangents_.assign(tile_.rows() * g_.channels, T(0));
    for (int64_t r = 0; r < tile_.rows(); ++r) {
      const int64_t i = tile_.begin + r;
      if (g_.lse[i] == -kInfinity<T>) continue;
      T* const h = cotangents_.data() + r * g_.channels;
      const T* const sums = g_.sums.row(i);
      correction_[r] = laser_cotangent(h, g_.dy.row(i), sums, laser.delta(), g_.channels);
      const auto channels = laser.out_of_range(sums, head_.last_key(i) - head_.first_key(i));
      for (const int64_t d : channels) h[d] = 0;
      const auto reads = read_exactly(head_, i, channels, g_.v);
      repairs.insert(repairs.end(), reads.begin(), reads.end());
    }
    return repairs;
  }

  void read_backward_exactly(const std::vector<ExactRead<T>>& repairs, int64_t j, int64_t n, T* ds) {
    std::fill(ds, ds + tile_.rows() * stride_, T(0));
    for (const ExactRead<T>& read : repairs) {
      const int64_t r = read.i - tile_.begin, d = read.channel;
      const T dy = g_.dy.row(read.i)[d] / read.total;
      const Visible seen = visible(head_, read.i, j, n);
      for (int64_t c = seen.begin; c < seen.end; ++c) {
        if (scores_[r * stride_ + c] == -kInfinity<T>) continue;  // hidden; the value may be NaN
        const T b = dy * std::exp(scores_[r * stride_ + c] + g_.v.row(j + c)[d] - read.largest);
        ds[r * stride_ + c] += b;
        g_.dv.row(j + c)[d] += b;
      }
    }
  }

  const AttentionHead<T>& head_;
  QueryTile tile_;
  const Gradients<T>& g_;
  const int64_t stride_;
  T *scores_, *slope_of_cap_, *dscores_;
  std::array<T, kMostQueries> correction_{};
  std::vector<T> cotangents_;
};

template <class T>
void backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q, const Tensor& k,
              const Tensor& v, const Tensor& sums, const Tensor& lse, const Tensor& bias,
              const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  const int64_t heads = q.size(1), own = k.size(1), group = heads / own, queries = q.size(2);
  parallel_for(0, q.size(0) * own, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t batch = item / own, key_head = item % own;
      const auto rows = [&](const Tensor& x, int64_t h) { return HeadRows<T>::of(x, batch, h); };
      clear(rows(dk, key_head), k.size(2), k.size(3));
      clear(rows(dv, key_head), k.size(2), v.size(3));
      for (int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
        clear(rows(dq, h), queries, q.size(3));
        const AttentionHead<T> head(form, q, k, bias, slopes, allowed, batch, h);
        const Gradients<T> g{rows(v, key_head),
                             rows(sums, h),
                             rows(dy, h),
                             rows(dq, h),
                             rows(dk, key_head),
                             rows(dv, key_head),
                             lse.data<T>() + (batch * heads + h) * queries,
                             v.size(3)};
        for (int64_t tile = 0; tile < tiles_of(queries); ++tile)
          BackwardTile<T>(head, query_tile(head, tile), g).run();
      }
    }
  });
}

}  // namespace

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& y, const Tensor& kept,
                        const Tensor& lse, const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                        const AttentionForm& form) {
  const auto run = q.dtype() == DType::float32 ? backward<float> : backward<double>;
  run(dq, dk, dv, dy, q, k, v, kept.defined() ? kept : y, lse, bias, slopes, allowed, form);
}

}  // namespace vitrine::cpu
