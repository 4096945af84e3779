// Normalization over the last axis: one block a row.
//
//   layer_norm: x̂ = (x − mean)/√(variance + eps)        rms_norm: x̂ = x/√(average x² + eps)        y = x̂·weight + bias
//
// The variance is the average of (x − mean)², from a second walk along the row, which a cache holds by then: E x² − (E x)² would
// take one walk and lose all digits where the mean is large.
#include "core/creation.h"
#include "core/math.h"
#include "cuda/rows.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// Average of f(x[i]…) over 0 ≤ i < n, known to each thread of the block.
template <class T, class F, class... X>
__device__ T average(int64_t n, const F& f, const X*... x) {
  T mine = 0;
  for_each_element(
      n, [&](X... x) { mine += f(x...); }, x...);
  return sum_block(mine) / static_cast<T>(n);
}

template <class S>
__global__ void layer_norm_kernel(S* y, Wide<S>* mean, Wide<S>* rstd, const S* x, const Wide<S>* weight,
                                  const Wide<S>* bias, int64_t n, Wide<S> eps) {
  using T = Wide<S>;
  const S* const row = x + row_begin(n);
  const T m = average<T>(
      n, [](S x) { return static_cast<T>(x); }, row);
  const auto squared = [&](S x) {
    const T centered = static_cast<T>(x) - m;
    return centered * centered;
  };
  const T r = T(1) / math::sqrt(average<T>(n, squared, row) + eps);
  const auto value = [&](S x, T weight, T bias) { return S((static_cast<T>(x) - m) * r * weight + bias); };
  map_elements(n, value, y + row_begin(n), row, weight, bias);
  if (threadIdx.x == 0) mean[blockIdx.x] = m, rstd[blockIdx.x] = r;
}

template <class S>
__global__ void rms_norm_kernel(S* y, Wide<S>* rstd, const S* x, const Wide<S>* weight, int64_t n,
                                Wide<S> eps) {
  using T = Wide<S>;
  const S* const row = x + row_begin(n);
  const auto squared = [](S x) { return static_cast<T>(x) * static_cast<T>(x); };
  const T r = T(1) / math::sqrt(average<T>(n, squared, row) + eps);
  map_elements(
      n, [&](S x, T weight) { return S(static_cast<T>(x) * r * weight); }, y + row_begin(n), row, weight);
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

/// What both backwards read. `mean` is null for rms_norm, which takes 0 for it.
template <class S>
struct NormBackward {
  const S *dy, *x;
  const Wide<S>*mean, *rstd, *weight;
  int64_t rows, n;

  __device__ Wide<S> mean_of(int64_t row) const { return mean == nullptr ? Wide<S>(0) : mean[row]; }
  __device__ Wide<S> normalized(int64_t row, int64_t i) const {
    return (static_cast<Wide<S>>(x[row * n + i]) - mean_of(row)) * rstd[row];
  }
};

/// With g = dy·weight: dx = rstd·(g − avg(g·x̂)·x̂ − avg(g)), the last term where a mean was subtracted.
template <class S>
__global__ void norm_backward_kernel(S* dx, NormBackward<S> b) {
  using T = Wide<S>;
  const int64_t row = blockIdx.x, begin = row_begin(b.n);
  const T m = b.mean_of(row), r = b.rstd[row];
  struct Sums {
    T along = 0, level = 0;  // Σ g·x̂ and Σ g
  } sums;
  const auto add = [&](S dy, S x, T weight) {
    const T g = static_cast<T>(dy) * weight;
    sums.along += g * ((static_cast<T>(x) - m) * r);
    sums.level += g;
  };
  for_each_element(b.n, add, b.dy + begin, b.x + begin, b.weight);
  sums = merge_block(sums, [](Sums a, Sums b) { return Sums{a.along + b.along, a.level + b.level}; });
  const T along = sums.along / static_cast<T>(b.n);
  const T level = b.mean == nullptr ? T(0) : sums.level / static_cast<T>(b.n);
  const auto value = [&](S dy, S x, T weight) {
    const T normalized = (static_cast<T>(x) - m) * r;
    return S(r * (static_cast<T>(dy) * weight - along * normalized - level));
  };
  map_elements(b.n, value, dx + begin, b.dy + begin, b.x + begin, b.weight);
}

constexpr int64_t kHeight = 128;  // rows that one block adds up

/// Σ dy·x̂ and Σ dy per column, over kHeight rows each: a sum over all rows follows. Null where not wanted.
template <class S>
__global__ void norm_weights_kernel(Wide<S>* dweights, Wide<S>* dbiases, NormBackward<S> b) {
  using T = Wide<S>;
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x, begin = blockIdx.y * kHeight;
  const int64_t end = begin + kHeight < b.rows ? begin + kHeight : b.rows;
  T dweight = 0, dbias = 0;
  if (column < b.n)
    for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const T dy = static_cast<T>(b.dy[row * b.n + column]);
      dweight += dy * b.normalized(row, column);
      dbias += dy;
    }
  const auto plus = [](T x, T y) { return x + y; };
  dweight = merge_column(dweight, plus);
  dbias = merge_column(dbias, plus);
  if (threadIdx.y != 0 || column >= b.n) return;
  if (dweights != nullptr) dweights[blockIdx.y * b.n + column] = dweight;
  if (dbiases != nullptr) dbiases[blockIdx.y * b.n + column] = dbias;
}

void norm_backward(const char* kernel, Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy,
                   const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  visit_rows(kernel, x, [&](auto type, unsigned rows, int64_t n, unsigned threads) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    const NormBackward<S> b{dy.data<S>(),
                            x.data<S>(),
                            mean.defined() ? mean.data<T>() : nullptr,
                            rstd.data<T>(),
                            weight.data<T>(),
                            int64_t{rows},
                            n};
    VITRINE_LAUNCH((norm_backward_kernel<S>), rows, threads, 0, dx.data<S>(), b);
    if (!dweight.defined() && !dbias.defined()) return;
    const int64_t pieces = (rows + kHeight - 1) / kHeight;
    check(pieces <= 65535, "{}: {} rows are more than a grid of blocks holds", kernel, rows);
    const auto partial = [&](const Tensor& total) {
      return total.defined() ? empty({1, pieces, n}, total.dtype(), x.device()) : Tensor();
    };
    const Tensor dweights = partial(dweight), dbiases = partial(dbias);
    VITRINE_LAUNCH((norm_weights_kernel<S>),
                   dim3(static_cast<unsigned>((n + kWarp - 1) / kWarp), static_cast<unsigned>(pieces)),
                   dim3(kWarp, kDeep), 0, dweights.defined() ? dweights.data<T>() : nullptr,
                   dbiases.defined() ? dbiases.data<T>() : nullptr, b);
    if (dweight.defined()) sum(dweight, dweights);
    if (dbias.defined()) sum(dbias, dbiases);
  });
}

}  // namespace

void layer_norm(Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& weight,
                const Tensor& bias, double eps) {
  visit_rows("layer_norm", x, [&](auto type, unsigned rows, int64_t n, unsigned threads) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    VITRINE_LAUNCH((layer_norm_kernel<S>), rows, threads, 0, y.data<S>(), mean.data<T>(), rstd.data<T>(),
                   x.data<S>(), weight.data<T>(), bias.data<T>(), n, static_cast<T>(eps));
  });
}

void layer_norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& x,
                         const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  norm_backward("layer_norm_backward", dx, dweight, dbias, dy, x, mean, rstd, weight);
}

void rms_norm(Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& weight, double eps) {
  visit_rows("rms_norm", x, [&](auto type, unsigned rows, int64_t n, unsigned threads) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    VITRINE_LAUNCH((rms_norm_kernel<S>), rows, threads, 0, y.data<S>(), rstd.data<T>(), x.data<S>(),
                   weight.data<T>(), n, static_cast<T>(eps));
  });
}

void rms_norm_backward(Tensor& dx, Tensor& dweight, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                       const Tensor& weight) {
  Tensor no_bias;
  norm_backward("rms_norm_backward", dx, dweight, no_bias, dy, x, {}, rstd, weight);
}

}  // namespace vitrine::cuda
