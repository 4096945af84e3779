// Softmax over the last axis: one block a row. The largest element and Σ e^(x − largest) are found in one pass (Milakov and
// Gimelshein 2018): each thread keeps both for its elements, and pairs are merged first in the warp, then among warps.
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

constexpr unsigned kWarp = 32, kAllLanes = 0xffffffffu;

/// total = Σ e^(x − largest) of some elements.
template <class T>
struct SumExp {
  T largest, total;
};

template <class T>
__device__ T minus_infinity() {
  return -static_cast<T>(INFINITY);
}

/// The two as one. Where both are alike nothing is scaled: ∞ − ∞ has no value.
template <class T>
__device__ SumExp<T> merge(SumExp<T> a, SumExp<T> b) {
  const T largest = a.largest >= b.largest || a.largest != a.largest ? a.largest : b.largest;
  const auto scaled = [&](const SumExp<T>& part) {
    return part.largest == largest ? part.total : part.total * math::exp(part.largest - largest);
  };
  return {largest, scaled(a) + scaled(b)};
}

/// Of all threads of the block, known to each of them.
template <class T>
__device__ SumExp<T> merge_block(SumExp<T> mine) {
  __shared__ T largest[kWarp], total[kWarp];
  for (unsigned step = kWarp / 2; step > 0; step /= 2)
    mine = merge(mine, SumExp<T>{__shfl_xor_sync(kAllLanes, mine.largest, static_cast<int>(step)),
                                 __shfl_xor_sync(kAllLanes, mine.total, static_cast<int>(step))});
  const unsigned warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) largest[warp] = mine.largest, total[warp] = mine.total;
  __syncthreads();
  SumExp<T> all{largest[0], total[0]};
  for (unsigned w = 1; w < warps; ++w) all = merge(all, SumExp<T>{largest[w], total[w]});
  return all;
}

template <class S>
__global__ void softmax_kernel(S* y, const S* x, int64_t n) {
  using T = Wide<S>;
  const S* const row = x + int64_t{blockIdx.x} * n;
  SumExp<T> mine{minus_infinity<T>(), T(0)};
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    mine = merge(mine, SumExp<T>{static_cast<T>(row[i]), T(1)});
  const SumExp<T> all = merge_block(mine);
  // A row of only −∞ has no total worth the name, and gives 0.
  const T scale = all.largest == minus_infinity<T>() ? T(0) : T(1) / all.total;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    y[int64_t{blockIdx.x} * n + i] =
        S(scale == T(0) ? T(0) : math::exp(static_cast<T>(row[i]) - all.largest) * scale);
}

template <class T>
__device__ T sum_block(T mine) {
  __shared__ T sums[kWarp];
  for (unsigned step = kWarp / 2; step > 0; step /= 2)
    mine += __shfl_xor_sync(kAllLanes, mine, static_cast<int>(step));
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = mine;
  __syncthreads();
  T all = 0;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) all += sums[w];
  return all;
}

template <class S>
__global__ void softmax_backward_kernel(S* dx, const S* dy, const S* y, int64_t n) {
  using T = Wide<S>;
  const int64_t row = int64_t{blockIdx.x} * n;
  T mine = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    mine += static_cast<T>(dy[row + i]) * static_cast<T>(y[row + i]);
  const T dot = sum_block(mine);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    dx[row + i] = S(static_cast<T>(y[row + i]) * (static_cast<T>(dy[row + i]) - dot));
}

/// Whole warps, more of them for longer rows.
unsigned threads_for(int64_t n) { return n <= 128 ? 32 : n <= 1024 ? 128 : 512; }

}  // namespace

void softmax(Tensor& y, const Tensor& x) {
  const int64_t n = x.size(-1);
  if (x.numel() == 0) return;
  visit_device_floating(x.dtype(), "softmax", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((softmax_kernel<S>), static_cast<unsigned>(x.numel() / n), threads_for(n), 0, y.data<S>(),
                   x.data<S>(), n);
  });
}

void softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y) {
  const int64_t n = y.size(-1);
  if (y.numel() == 0) return;
  visit_device_floating(y.dtype(), "softmax_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((softmax_backward_kernel<S>), static_cast<unsigned>(y.numel() / n), threads_for(n), 0,
                   dx.data<S>(), dy.data<S>(), y.data<S>(), n);
  });
}

}  // namespace vitrine::cuda
