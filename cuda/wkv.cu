// The weighted average of RWKV-4, step by step, from the same formulas as on the CPU: a thread owns
// a channel of a row of the batch. Neighbouring threads read neighbouring channels.
#include "cuda/launch.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class S>
struct Wkv {
  using T = AccumulatorOf<S>;
  const S *k, *v;
  const T *decay, *bonus;
  int64_t batch, time, channels, chunks;

  Wkv(const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& bonus)
      : k(k.data<S>()),
        v(v.data<S>()),
        decay(decay.data<T>()),
        bonus(bonus.data<T>()),
        batch(k.size(0)),
        time(k.size(1)),
        channels(k.size(2)),
        chunks((k.size(1) + kScanChunk - 1) / kScanChunk) {}
  __device__ formula::WkvStep<T> step(int64_t place, int64_t c, T mean, T log_weight) const {
    return formula::WkvStep<T>::of(static_cast<T>(k[place]), static_cast<T>(v[place]), decay[c], bonus[c],
                                   mean, log_weight);
  }
  /// The place of the mean before a chunk of row b; that of the log weight is `parts` further.
  __device__ int64_t boundary(int64_t b, int64_t chunk, int64_t c) const {
    return (b * chunks + chunk) * channels + c;
  }
  __device__ int64_t parts() const { return batch * chunks * channels; }
};

template <class S, class T>
__global__ void wkv_kernel(S* y, T* mean, T* log_weight, T* boundaries, Wkv<S> x, const T* first_mean,
                           const T* first_log_weight) {
  for (int64_t i = first_index(); i < x.batch * x.channels; i += grid_stride()) {
    const int64_t b = i / x.channels, c = i - b * x.channels;
    T m = first_mean[i], w = first_log_weight[i];
    for (int64_t t = 0; t < x.time; ++t) {
      if (boundaries != nullptr && t % kScanChunk == 0) {
        const int64_t at = x.boundary(b, t / kScanChunk, c);
        boundaries[at] = m, boundaries[at + x.parts()] = w;
      }
      const int64_t place = (b * x.time + t) * x.channels + c;
      const auto s = x.step(place, c, m, w);
      y[place] = S(s.y), m = s.mean, w = s.log_weight;
    }
    mean[i] = m, log_weight[i] = w;
  }
}

/// The gradients, and on entry those of the state after the last position.
template <class S>
struct WkvGradients {
  using T = AccumulatorOf<S>;
  S *k, *v;
  T *decay, *bonus, *mean, *log_weight;
};

/// Each chunk from its boundary again, then from its end.
template <class S, class T>
__global__ void wkv_backward_kernel(WkvGradients<S> d, Wkv<S> x, const S* dy, const T* dmean_after,
                                    const T* dlog_weight_after, const T* boundaries) {
  for (int64_t i = first_index(); i < x.batch * x.channels; i += grid_stride()) {
    const int64_t b = i / x.channels, c = i - b * x.channels;
    T dmean = dmean_after[i], dlog_weight = dlog_weight_after[i], ddecay = 0, dbonus = 0;
    T means[kScanChunk], log_weights[kScanChunk];
    for (int64_t chunk = x.chunks - 1; chunk >= 0; --chunk) {
      const int64_t begin = chunk * kScanChunk, n = begin + kScanChunk < x.time ? kScanChunk : x.time - begin;
      T m = boundaries[x.boundary(b, chunk, c)], w = boundaries[x.boundary(b, chunk, c) + x.parts()];
      const auto place = [&](int64_t p) { return (b * x.time + begin + p) * x.channels + c; };
      for (int64_t p = 0; p < n; ++p) {
        means[p] = m, log_weights[p] = w;
        const auto s = x.step(place(p), c, m, w);
        m = s.mean, w = s.log_weight;
      }
      for (int64_t p = n - 1; p >= 0; --p) {
        const auto g = formula::WkvStepGradient<T>::of(x.step(place(p), c, means[p], log_weights[p]),
                                                       static_cast<T>(x.v[place(p)]), means[p],
                                                       static_cast<T>(dy[place(p)]), dmean, dlog_weight);
        d.k[place(p)] = S(g.k), d.v[place(p)] = S(g.v);
        ddecay += g.decay, dbonus += g.bonus, dmean = g.mean, dlog_weight = g.log_weight;
      }
    }
    d.mean[i] = dmean, d.log_weight[i] = dlog_weight, d.decay[i] = ddecay, d.bonus[i] = dbonus;
  }
}

}  // namespace

void wkv(Tensor& y, Tensor& mean, Tensor& log_weight, Tensor& boundaries, const Tensor& k, const Tensor& v,
         const Tensor& decay, const Tensor& bonus, const Tensor& first_mean, const Tensor& first_log_weight) {
  if (mean.numel() == 0) return;
  visit_device_floating(k.dtype(), "wkv", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    T* const kept = boundaries.defined() ? boundaries.data<T>() : nullptr;
    VITRINE_LAUNCH((wkv_kernel<S, T>), blocks_for(mean.numel()), kThreads, 0, y.data<S>(), mean.data<T>(),
                   log_weight.data<T>(), kept, Wkv<S>(k, v, decay, bonus), first_mean.data<T>(),
                   first_log_weight.data<T>());
  });
}

void wkv_backward(Tensor& dk, Tensor& dv, Tensor& ddecay, Tensor& dbonus, Tensor& dmean, Tensor& dlog_weight,
                  const Tensor& dy, const Tensor& dmean_after, const Tensor& dlog_weight_after,
                  const Tensor& k, const Tensor& v, const Tensor& decay, const Tensor& bonus,
                  const Tensor& boundaries) {
  if (dmean.numel() == 0) return;
  visit_device_floating(k.dtype(), "wkv_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const WkvGradients<S> gradients{dk.data<S>(),     dv.data<S>(),    ddecay.data<T>(),
                                    dbonus.data<T>(), dmean.data<T>(), dlog_weight.data<T>()};
    VITRINE_LAUNCH((wkv_backward_kernel<S, T>), blocks_for(dmean.numel()), kThreads, 0, gradients,
                   Wkv<S>(k, v, decay, bonus), dy.data<S>(), dmean_after.data<T>(),
                   dlog_weight_after.data<T>(), boundaries.data<T>());
  });
}

}  // namespace vitrine::cuda
