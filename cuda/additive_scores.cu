// The scores of additive attention, s_ij = Σ_a w_a·tanh(q_ai + k_aj). The hidden values are
// computed where they are needed and never stored. In the forward and for dk, neighbouring threads
// have neighbouring keys, so that a warp reads k and ds in whole cache lines, and q is one number
// for all of its threads. For dq and dw a warp sums over the keys of a query.
#include "core/math.h"
#include "cuda/block.h"
#include "cuda/launch.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class T>
struct Additive {
  const T *q, *k, *w, *ds;
  int64_t channels, queries, keys;

  /// tanh(q_ai + k_aj) for the channel `at` = n·A + a.
  __device__ T hidden(int64_t at, int64_t i, int64_t j) const {
    return math::tanh(q[at * queries + i] + k[at * keys + j]);
  }
  __device__ T up(int64_t at, int64_t i, int64_t j) const {
    return ds[(at / channels * queries + i) * keys + j];
  }
};

/// One thread per score.
template <class T>
__global__ void additive_scores_kernel(T* s, Additive<T> x, int64_t count) {
  for (int64_t e = first_index(); e < count; e += grid_stride()) {
    const int64_t j = e % x.keys, i = e / x.keys % x.queries, n = e / x.keys / x.queries;
    T sum = 0;
    for (int64_t at = n * x.channels; at < (n + 1) * x.channels; ++at)
      sum = std::fma(x.w[at], x.hidden(at, i, j), sum);
    s[e] = sum;
  }
}

/// One thread per element of dk.
template <class T>
__global__ void additive_scores_key_gradients(T* dk, Additive<T> x, int64_t count) {
  for (int64_t e = first_index(); e < count; e += grid_stride()) {
    const int64_t at = e / x.keys, j = e % x.keys;
    T sum = 0;
    for (int64_t i = 0; i < x.queries; ++i) {
      const T t = x.hidden(at, i, j);
      sum = std::fma(x.up(at, i, j), T(1) - t * t, sum);
    }
    dk[e] = x.w[at] * sum;
  }
}

/// One block of a warp per channel: dq, and dw.
template <class T>
__global__ void additive_scores_query_gradients(T* dq, T* dw, Additive<T> x) {
  const int64_t at = blockIdx.x;
  const auto add = [](T a, T b) { return a + b; };
  T of_weight = 0;
  for (int64_t i = 0; i < x.queries; ++i) {
    T sum = 0;
    for (int64_t j = threadIdx.x; j < x.keys; j += kWarp) {
      const T t = x.hidden(at, i, j), up = x.up(at, i, j);
      sum = std::fma(up, T(1) - t * t, sum);
      of_weight = std::fma(up, t, of_weight);
    }
    sum = merge_warp(sum, add);
    if (threadIdx.x == 0) dq[at * x.queries + i] = x.w[at] * sum;
  }
  of_weight = merge_warp(of_weight, add);
  if (threadIdx.x == 0) dw[at] = of_weight;
}

template <class T>
Additive<T> operands(const Tensor& q, const Tensor& k, const Tensor& w, const T* ds = nullptr) {
  return {q.data<T>(), k.data<T>(), w.data<T>(), ds, q.size(1), q.size(2), k.size(2)};
}

}  // namespace

void additive_scores(Tensor& s, const Tensor& q, const Tensor& k, const Tensor& w) {
  if (s.numel() == 0) return;
  visit_device_wide(s.dtype(), "additive_scores", [&]<class T>(Type<T>) {
    VITRINE_LAUNCH((additive_scores_kernel<T>), blocks_for(s.numel()), kThreads, 0, s.data<T>(),
                   operands<T>(q, k, w), s.numel());
  });
}

void additive_scores_backward(Tensor& dq, Tensor& dk, Tensor& dw, const Tensor& ds, const Tensor& q,
                              const Tensor& k, const Tensor& w) {
  const int64_t channels = dw.numel();
  if (channels == 0) return;
  visit_device_wide(ds.dtype(), "additive_scores_backward", [&]<class T>(Type<T>) {
    const Additive<T> x = operands<T>(q, k, w, ds.data<T>());
    if (dk.numel() > 0)
      VITRINE_LAUNCH((additive_scores_key_gradients<T>), blocks_for(dk.numel()), kThreads, 0, dk.data<T>(), x,
                     dk.numel());
    VITRINE_LAUNCH((additive_scores_query_gradients<T>),
                   grid_of(channels, "additive_scores_backward", "channels"), kWarp, 0, dq.data<T>(),
                   dw.data<T>(), x);
  });
}

}  // namespace vitrine::cuda
