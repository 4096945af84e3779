// Functions of rows that several kernels share, in addition to those of core/simd/row_functions.h.
// The same conventions hold: S is the type in memory, and AccumulatorOf<S> is the type of sums and
// statistics.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include "core/parallel.h"
#include "core/simd/row_functions.h"
#include "core/tensor.h"

namespace vitrine::cpu {

/// The types for which row functions exist: real numbers, which excludes Dual.
template <class S>
inline constexpr bool is_row_type = std::is_same_v<S, float> || std::is_same_v<S, double> ||
                                    std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>;

/// Calls f(Type<S>{}) for such a dtype. Another dtype is an error that names the kernel.
template <class F>
decltype(auto) visit_row_type(DType dtype, std::string_view kernel, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    case DType::bfloat16: return f(Type<bfloat16>{});
    case DType::float16: return f(Type<float16>{});
    default: fail("{}: its kernel wants float32, float64, bfloat16 or float16, got {}", kernel, name(dtype));
  }
}

/// The same for kernels of wide dtypes alone.
template <class F>
decltype(auto) visit_wide(DType dtype, std::string_view kernel, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    default: fail("{}: its kernel wants float32 or float64, got {}", kernel, name(dtype));
  }
}

/// Calls f(Type<S>{}, row, row·n, n) in parallel for each row of n elements along the last axis;
/// row·n is the row's offset in a contiguous x.
template <class F>
void for_each_row(std::string_view kernel, const Tensor& x, F&& f) {
  const int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  visit_row_type(x.dtype(), kernel, [&](auto type) {
    parallel_for(0, rows, grain_for(4 * n), [&](int64_t b, int64_t e) {
      for (int64_t row = b; row < e; ++row) f(type, row, row * n, static_cast<size_t>(n));
    });
  });
}

/// Σ e^(x − shift) of a row with shift = max x, or shift = 0 if the maximum is not finite, because
/// ∞ − ∞ is NaN. The result stays two numbers: shift + log(total) would be rounded at the magnitude
/// of x, and so would probabilities computed from it.
template <class T>
struct SumExp {
  T shift, total;  ///< total is 0 in a row of only −∞ (or an empty row)
  T log() const { return shift + std::log(total); }
};
template <class S>
SumExp<AccumulatorOf<S>> sum_exp(const S* x, size_t n);

/// Results with more bytes than this bypass the caches, which could not keep them until they are
/// read.
inline constexpr int64_t kStreamBytes = 32 << 20;

/// sums[c] += Σ_r x[r·stride + c] for c < n, r < rows; pairwise summation of eight rows at a time.
template <class S>
void add_rows(AccumulatorOf<S>* sums, const S* x, int64_t stride, int64_t rows, size_t n);

/// y = (x − a) − b.
template <class S>
void subtract_twice(S* y, const S* x, AccumulatorOf<S> a, AccumulatorOf<S> b, size_t n);

/// y = scale·e^(x − shift) − offset. With `stream`, y bypasses the caches, which could not keep it.
template <class S>
void scaled_exp_minus(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale,
                      AccumulatorOf<S> offset, size_t n, bool stream);

/// z = x − scale·e^y: the backward of log_softmax.
template <class S>
void subtract_scaled_exp(S* z, const S* x, AccumulatorOf<S> scale, const S* y, size_t n);

/// One row of the backward of layer_norm or, if not centered, of rms_norm; mean is then 0. With x̂
/// = (x − mean)·rstd and g = dy·weight,
///   dx = rstd·(g − avg(g·x̂)·x̂ − avg(g)) + dsum,
///        avg(g) only if centered, and dsum if it is not null,
///   dweight += dy·x̂ and dbias += dy, if they are not null.
template <class S>
struct NormBackwardRow {
  S* dx;
  AccumulatorOf<S>*dweight, *dbias;
  const S *dy, *dsum, *x;
  const AccumulatorOf<S>* weight;
  AccumulatorOf<S> mean, rstd;
  bool centered;
};
template <class S>
void norm_backward_row(const NormBackwardRow<S>& task, size_t n);

/// y[i] = word i % 4 of Philox counter offset + i/4, shifted right by 8, < limit ? 0 : x[i]·scale.
template <class S>
void dropout_row(S* y, const S* x, uint32_t limit, AccumulatorOf<S> scale, uint64_t seed, uint64_t offset,
                 size_t n);

}  // namespace vitrine::cpu
