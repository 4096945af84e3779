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

/// What every forward writes, and reads beside x. `mean` and `bias` are null for rms_norm, which takes 0 for them.
template <class S>
struct NormForward {
  using T = Wide<S>;

  S* y;
  T *mean, *rstd;
  const T *weight, *bias;
  int64_t n;
  T eps;

  /// y of this block's row of x.
  __device__ void normalize(const S* x) const {
    const S* const row = x + row_begin(n);
    const T m = mean == nullptr ? T(0)
                                : average<T>(
                                      n, [](S x) { return static_cast<T>(x); }, row);
    const auto squared = [&](S x) {
      const T centered = static_cast<T>(x) - m;
      return centered * centered;
    };
    const T r = T(1) / math::sqrt(average<T>(n, squared, row) + eps);
    const auto scaled = [&](S x, T weight) { return (static_cast<T>(x) - m) * r * weight; };
    S* const to = y + row_begin(n);
    if (bias == nullptr) {
      map_elements(
          n, [&](S x, T weight) { return S(scaled(x, weight)); }, to, row, weight);
    } else {
      map_elements(
          n, [&](S x, T weight, T bias) { return S(scaled(x, weight) + bias); }, to, row, weight, bias);
    }
    if (threadIdx.x != 0) return;
    if (mean != nullptr) mean[blockIdx.x] = m;
    rstd[blockIdx.x] = r;
  }
};

template <class S>
__global__ void __launch_bounds__(kMostThreads) norm_kernel(const S* x, NormForward<S> norm) {
  norm.normalize(x);
}

/// The same of x + residual, which goes to `sum` and is read again from a cache.
template <class S>
__global__ void __launch_bounds__(kMostThreads)
    add_norm_kernel(S* sum, const S* x, const S* residual, NormForward<S> norm) {
  using T = Wide<S>;
  const int64_t row = row_begin(norm.n);
  const auto add = [](S x, S residual) { return S(static_cast<T>(x) + static_cast<T>(residual)); };
  map_elements(norm.n, add, sum + row, x + row, residual + row);
  __syncthreads();  // a thread may read what another has written
  norm.normalize(sum);
}

/// Calls launch(norm, rows, threads) for tensors as they are in ops/kernels.h.
template <class F>
void visit_norm(const char* kernel, Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                const Tensor& bias, double eps, F&& launch) {
  visit_rows(kernel, y, [&](auto type, unsigned rows, int64_t n, unsigned threads) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    launch(
        NormForward<S>{y.data<S>(), mean.defined() ? mean.data<T>() : nullptr, rstd.data<T>(),
                       weight.data<T>(), bias.defined() ? bias.data<T>() : nullptr, n, static_cast<T>(eps)},
        type, rows, threads);
  });
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

/// With g = dy·weight: dx = rstd·(g − avg(g·x̂)·x̂ − avg(g)), the last term where a mean was subtracted; plus dsum, the gradient of x
/// itself, unless that is null.
template <class S>
__global__ void __launch_bounds__(kMostThreads)
    norm_backward_kernel(S* dx, const S* dsum, NormBackward<S> b) {
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
    return r * (static_cast<T>(dy) * weight - along * normalized - level);
  };
  const S *const dy = b.dy + begin, *const x = b.x + begin;
  if (dsum == nullptr) {
    map_elements(
        b.n, [&](S dy, S x, T weight) { return S(value(dy, x, weight)); }, dx + begin, dy, x, b.weight);
  } else {
    const auto with_sum = [&](S dy, S x, T weight, S dsum) {
      return S(value(dy, x, weight) + static_cast<T>(dsum));
    };
    map_elements(b.n, with_sum, dx + begin, dy, x, b.weight, dsum + begin);
  }
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
                   const Tensor& dsum, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                   const Tensor& weight) {
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
    VITRINE_LAUNCH((norm_backward_kernel<S>), rows, threads, 0, dx.data<S>(),
                   dsum.defined() ? dsum.data<S>() : nullptr, b);
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
  visit_norm("layer_norm", y, mean, rstd, weight, bias, eps,
             [&](const auto& norm, auto type, unsigned rows, unsigned threads) {
               using S = typename decltype(type)::type;
               VITRINE_LAUNCH((norm_kernel<S>), rows, threads, 0, x.data<S>(), norm);
             });
}

void layer_norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& x,
                         const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  norm_backward("layer_norm_backward", dx, dweight, dbias, dy, {}, x, mean, rstd, weight);
}

void rms_norm(Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& weight, double eps) {
  visit_norm("rms_norm", y, {}, rstd, weight, {}, eps,
             [&](const auto& norm, auto type, unsigned rows, unsigned threads) {
               using S = typename decltype(type)::type;
               VITRINE_LAUNCH((norm_kernel<S>), rows, threads, 0, x.data<S>(), norm);
             });
}

void rms_norm_backward(Tensor& dx, Tensor& dweight, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                       const Tensor& weight) {
  Tensor no_bias;
  norm_backward("rms_norm_backward", dx, dweight, no_bias, dy, {}, x, {}, rstd, weight);
}

void add_norm(Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& residual,
              const Tensor& weight, const Tensor& bias, double eps) {
  visit_norm("add_norm", y, mean, rstd, weight, bias, eps,
             [&](const auto& norm, auto type, unsigned rows, unsigned threads) {
               using S = typename decltype(type)::type;
               VITRINE_LAUNCH((add_norm_kernel<S>), rows, threads, 0, sum.data<S>(), x.data<S>(),
                              residual.data<S>(), norm);
             });
}

void add_norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& dsum,
                       const Tensor& sum, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  norm_backward("add_norm_backward", dx, dweight, dbias, dy, dsum, sum, mean, rstd, weight);
}

}  // namespace vitrine::cuda
