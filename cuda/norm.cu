// Normalization over the last axis: rows of moderate length in registers (cuda/norm_held.h); longer
// and unaligned rows with one block per row, which reads the row several times, from a cache or
// from shared memory (cuda/rows.h).
//
//   y = x̂·weight + bias
//   layer_norm: x̂ = (x − mean)/√(variance + eps)        rms_norm: x̂ = x/√(average x² + eps)
//
// The variance is the average of (x − mean)², from a second pass over the row: E x² − (E x)² would
// take one pass, but lose all digits if the mean is large.
#include "core/creation.h"
#include "core/math.h"
#include "cuda/norm_held.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// The average of f(x[i]…) over 0 ≤ i < n. Each thread of the block gets the result.
template <class T, class F, class... X>
__device__ T average(int64_t n, const F& f, const X*... x) {
  T mine = 0;
  for_each_element(
      n, [&](X... x) { mine += f(x...); }, x...);
  return sum_block(mine) / static_cast<T>(n);
}

/// Computes y for this block's row of x.
template <class S>
__device__ void normalize(const S* x, const NormForward<S>& norm, unsigned shared) {
  using T = AccumulatorOf<S>;
  const int64_t n = norm.n;
  const S* row = x + row_begin(n);
  rows_in_registers(shared, n, row);
  const T m = norm.mean == nullptr ? T(0)
                                   : average<T>(
                                         n, [](S x) { return static_cast<T>(x); }, row);
  const auto squared = [&](S x) {
    const T centered = static_cast<T>(x) - m;
    return centered * centered;
  };
  const T r = T(1) / math::sqrt(average<T>(n, squared, row) + norm.eps);
  const auto scaled = [&](S x, T weight) { return (static_cast<T>(x) - m) * r * weight; };
  S* const to = norm.y + row_begin(n);
  if (norm.bias == nullptr) {
    map_elements(
        n, [&](S x, T weight) { return S(scaled(x, weight)); }, to, row, norm.weight);
  } else {
    map_elements(
        n, [&](S x, T weight, T bias) { return S(scaled(x, weight) + bias); }, to, row, norm.weight,
        norm.bias);
  }
  norm.write_statistics(blockIdx.x, m, r);
}

template <class S>
__global__ void __launch_bounds__(kMostHolding)
    norm_kernel(const S* x, NormForward<S> norm, unsigned shared) {
  normalize(x, norm, shared);
}

/// The same for x + residual, which is written to `sum` and read again from a cache.
template <class S>
__global__ void __launch_bounds__(kMostHolding)
    add_norm_kernel(S* sum, const S* x, const S* residual, NormForward<S> norm, unsigned shared) {
  using T = AccumulatorOf<S>;
  const int64_t row = row_begin(norm.n);
  const auto add = [](S x, S residual) { return S(static_cast<T>(x) + static_cast<T>(residual)); };
  map_elements(norm.n, add, sum + row, x + row, residual + row);
  __syncthreads();  // a thread may read what another has written
  normalize<S>(sum, norm, shared);
}

/// Tensors as in ops/kernels.h; without `residual`, `sum` is x.
void norm(const char* kernel, Tensor* sum, Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
          const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps) {
  visit_rows(kernel, y, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const NormForward<S> form{y.data<S>(),
                              mean.defined() ? mean.data<T>() : nullptr,
                              rstd.data<T>(),
                              weight.data<T>(),
                              bias.defined() ? bias.data<T>() : nullptr,
                              int64_t{rows},
                              n,
                              static_cast<T>(eps)};
    S* const to = sum == nullptr ? nullptr : sum->data<S>();
    const S* const more = residual.defined() ? residual.data<S>() : nullptr;
    const Tensor& summed = sum == nullptr ? x : *sum;
    if (const unsigned holders = holders_of<S>(kHeld, n, summed, y, x, residual, weight, bias); holders > 0) {
      const dim3 block = held_block(holders);
      VITRINE_LAUNCH((held_norm_kernel<S>), (rows + block.y - 1) / block.y, block, 0, to, x.data<S>(), more,
                     form);
    } else if (more != nullptr) {
      const Holding block = holding_for<add_norm_kernel<S>, S>(n, 1);
      VITRINE_LAUNCH((add_norm_kernel<S>), rows, block.threads, block.shared, to, x.data<S>(), more, form,
                     block.shared);
    } else {
      const Holding block = holding_for<norm_kernel<S>, S>(n, 1);
      VITRINE_LAUNCH((norm_kernel<S>), rows, block.threads, block.shared, x.data<S>(), form, block.shared);
    }
  });
}

/// With g = dy·weight: dx = rstd·(g − avg(g·x̂)·x̂ − avg(g)), the last term only if a mean was
/// subtracted; plus dsum, the direct gradient of x, unless dsum is null.
template <class S>
__global__ void __launch_bounds__(kMostHolding)
    norm_backward_kernel(S* dx, const S* dsum, NormBackward<S> b, unsigned shared) {
  using T = AccumulatorOf<S>;
  const int64_t row = blockIdx.x, begin = row_begin(b.n);
  const T m = b.mean_of(row), r = b.rstd[row];
  const S *dy = b.dy + begin, *x = b.x + begin;
  rows_in_registers(shared, b.n, dy, x);
  NormSums<T> sums{};
  const auto add = [&](S dy, S x, T weight) {
    const T g = static_cast<T>(dy) * weight;
    sums.along += g * ((static_cast<T>(x) - m) * r);
    sums.level += g;
  };
  for_each_element(b.n, add, dy, x, b.weight);
  sums = sums.averages(b.n, b.mean != nullptr);
  const auto value = [&](S dy, S x, T weight) {
    const T normalized = (static_cast<T>(x) - m) * r;
    return r * (static_cast<T>(dy) * weight - sums.along * normalized - sums.level);
  };
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

/// Σ dy·x̂ and Σ dy per column, over `height` rows per block; a sum over the blocks follows. Null
/// if not requested.
template <class S>
__global__ void norm_weights_kernel(AccumulatorOf<S>* dweights, AccumulatorOf<S>* dbiases, NormBackward<S> b,
                                    int64_t height) {
  using T = AccumulatorOf<S>;
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x, begin = blockIdx.y * height;
  const int64_t end = begin + height < b.rows ? begin + height : b.rows;
  T dweight = 0, dbias = 0;
  if (column < b.n)
    for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const T dy = static_cast<T>(b.dy[row * b.n + column]);
      dweight += dy * (static_cast<T>(b.x[row * b.n + column]) - b.mean_of(row)) * b.rstd[row];
      dbias += dy;
    }
  const auto plus = [](T x, T y) { return x + y; };
  dweight = merge_column(dweight, plus);
  dbias = merge_column(dbias, plus);
  if (threadIdx.y != 0 || column >= b.n) return;
  if (dweights != nullptr) dweights[blockIdx.y * b.n + column] = dweight;
  if (dbiases != nullptr) dbiases[blockIdx.y * b.n + column] = dbias;
}

}  // namespace

void norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& dsum,
                   const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  for (Tensor* total : {&dweight, &dbias})
    if (x.numel() == 0 && total->defined()) fill(*total, 0);
  visit_rows("norm_backward", x, [&](auto type, unsigned rows, int64_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const NormBackward<S> b{dy.data<S>(),
                            x.data<S>(),
                            mean.defined() ? mean.data<T>() : nullptr,
                            rstd.data<T>(),
                            weight.data<T>(),
                            int64_t{rows},
                            n};
    S* const to = dx.data<S>();
    const S* const more = dsum.defined() ? dsum.data<S>() : nullptr;
    const bool wants_sums = dweight.defined() || dbias.defined();
    const unsigned holders = holders_of<S>(kHeldBackward<S>, n, dx, dy, dsum, x, weight);
    const dim3 held = held_block(holders);
    constexpr int64_t kHeight = 128,
                      kMostPieces = 65535;  // rows that a block adds up, unless they are very many
    const int64_t height =
        holders > 0 ? held_height(rows, held.x * held.y) : std::max(kHeight, rows / kMostPieces + 1);
    const int64_t pieces = (rows + height - 1) / height;
    const auto partial = [&](const Tensor& total) {
      return total.defined() ? empty({1, pieces, n}, total.dtype(), x.device()) : Tensor();
    };
    const Tensor dweights = partial(dweight), dbiases = partial(dbias);
    T* const weight_sums = dweights.defined() ? dweights.data<T>() : nullptr;
    T* const bias_sums = dbiases.defined() ? dbiases.data<T>() : nullptr;
    if (holders > 0) {
      VITRINE_LAUNCH((held_norm_backward_kernel<S>), static_cast<unsigned>(pieces), held, 0, to, more,
                     weight_sums, bias_sums, b, static_cast<int>(height));
    } else {
      const Holding block = holding_for<norm_backward_kernel<S>, S>(n, 2);
      VITRINE_LAUNCH((norm_backward_kernel<S>), rows, block.threads, block.shared, to, more, b, block.shared);
      const dim3 blocks(static_cast<unsigned>((n + kWarp - 1) / kWarp), static_cast<unsigned>(pieces));
      if (wants_sums)
        VITRINE_LAUNCH((norm_weights_kernel<S>), blocks, dim3(kWarp, kDeep), 0, weight_sums, bias_sums, b,
                       height);
    }
    if (dweight.defined()) sum(dweight, dweights);
    if (dbias.defined()) sum(dbias, dbiases);
  });
}

void layer_norm(Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& weight,
                const Tensor& bias, double eps) {
  norm("layer_norm", nullptr, y, mean, rstd, x, {}, weight, bias, eps);
}

void rms_norm(Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& weight, double eps) {
  norm("rms_norm", nullptr, y, {}, rstd, x, {}, weight, {}, eps);
}

void add_norm(Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& residual,
              const Tensor& weight, const Tensor& bias, double eps) {
  norm("add_norm", &sum, y, mean, rstd, x, residual, weight, bias, eps);
}

}  // namespace vitrine::cuda
