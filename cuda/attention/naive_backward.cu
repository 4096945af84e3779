// The backward of step 1, as in a textbook. The forward saves nothing: weights and y are computed
// again. For one query i, key j and channel d:
//
//   dv_jd = Σ_i dy_id·∂y_id/∂v_jd,   ds_ij = Σ_d dy_id·∂y_id/∂s_ij
//   dq = scale·ds·k,   dk = scale·dsᵀ·q
//
//   mean    ∂y/∂v = w                      ∂y/∂s = w·(v − y)
//   LASER   ∂y/∂v = e^(log w + v − y)      ∂y/∂s = ∂y/∂v − w
//
// The gradient of lse adds w·dlse to ds, because ∂lse/∂s = w.
//
// ds is a second matrix in memory, with Tq·Tk numbers per head.
#include "core/creation.h"
#include "cuda/attention/naive.h"

namespace vitrine::cuda {
namespace {

template <class S, class T = AccumulatorOf<S>>
struct NaiveBackward {
  AttentionInputs<S> in;
  Heads<S> dy;
  Heads<T> weights, y, ds, dbias;  // dbias: ds before the softcap's slope, if it is wanted
  const T* dlse;                   // null for 0
  int heads;                       // of queries

  __device__ T by_value(T w, T v, T y) const { return in.laser ? math::exp(w + (v - y)) : w; }
  __device__ T by_score(T w, T v, T y) const {
    if (in.laser) return by_value(w, v, y) - math::exp(w);
    return w == T(0) ? T(0) : w * (v - y);  // 0 even if a value is infinite
  }
};

/// One thread per element of ds [B, H, Tq, Tk].
template <class S, class T = AccumulatorOf<S>>
__global__ void attention_naive_score_gradients(NaiveBackward<S> x, int64_t count) {
  const AttentionInputs<S>& in = x.in;
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, x.heads, in.scores.queries, in.scores.keys);
    const S* const v = in.v.rows(e.b, e.h / in.group).row(e.column);
    const S* const dy = x.dy.rows(e.b, e.h).row(e.row);
    const T* const y = x.y.rows(e.b, e.h).row(e.row);
    const T w = x.weights.rows(e.b, e.h).row(e.row)[e.column];
    T sum = 0, slope_of_cap = 1;
    for (int d = 0; d < in.channels; ++d)
      sum = std::fma(static_cast<T>(dy[d]), x.by_score(w, static_cast<T>(v[d]), y[d]), sum);
    if (x.dlse != nullptr) sum = std::fma(in.laser ? math::exp(w) : w, x.dlse[at / in.scores.keys], sum);
    if (x.dbias.data != nullptr) x.dbias.rows(e.b, e.h).row(e.row)[e.column] = sum;
    if (in.scores.softcap > T(0)) {
      const S* const k = in.k.rows(e.b, e.h / in.group).row(e.column);
      const T product = dot(in.q.rows(e.b, e.h).row(e.row), k, in.size);
      in.scores.of_head(e.b, e.h).score(product, e.row, e.column, &slope_of_cap);
    }
    x.ds.rows(e.b, e.h).row(e.row)[e.column] = sum * slope_of_cap;
  }
}

/// One thread per element of dq [B, H, Tq, D].
template <class S, class T = AccumulatorOf<S>>
__global__ void attention_naive_query_gradients(Heads<S> dq, NaiveBackward<S> x, int64_t count) {
  const AttentionInputs<S>& in = x.in;
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, x.heads, in.scores.queries, in.size);
    const HeadMatrix<S> k = in.k.rows(e.b, e.h / in.group);
    const T* const ds = x.ds.rows(e.b, e.h).row(e.row);
    T sum = 0;
    for (int j = 0; j < in.scores.keys; ++j) sum = std::fma(ds[j], static_cast<T>(k.row(j)[e.column]), sum);
    dq.rows(e.b, e.h).row(e.row)[e.column] = S(in.scores.scale * sum);
  }
}

/// One thread per element of dk [B, Hkv, Tk, D], summed over all query heads of the key head.
template <class S, class T = AccumulatorOf<S>>
__global__ void attention_naive_key_gradients(Heads<S> dk, NaiveBackward<S> x, int64_t count) {
  const AttentionInputs<S>& in = x.in;
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, x.heads / in.group, in.scores.keys, in.size);
    T sum = 0;
    for (int h = e.h * in.group; h < (e.h + 1) * in.group; ++h)
      for (int i = 0; i < in.scores.queries; ++i)
        sum = std::fma(x.ds.rows(e.b, h).row(i)[e.row], static_cast<T>(in.q.rows(e.b, h).row(i)[e.column]),
                       sum);
    dk.rows(e.b, e.h).row(e.row)[e.column] = S(in.scores.scale * sum);
  }
}

/// One thread per element of dv [B, Hkv, Tk, Dv].
template <class S, class T = AccumulatorOf<S>>
__global__ void attention_naive_value_gradients(Heads<S> dv, NaiveBackward<S> x, int64_t count) {
  const AttentionInputs<S>& in = x.in;
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, x.heads / in.group, in.scores.keys, in.channels);
    const auto v = static_cast<T>(in.v.rows(e.b, e.h).row(e.row)[e.column]);
    T sum = 0;
    for (int h = e.h * in.group; h < (e.h + 1) * in.group; ++h)
      for (int i = 0; i < in.scores.queries; ++i)
        sum = std::fma(static_cast<T>(x.dy.rows(e.b, h).row(i)[e.column]),
                       x.by_value(x.weights.rows(e.b, h).row(i)[e.row], v, x.y.rows(e.b, h).row(i)[e.column]),
                       sum);
    dv.rows(e.b, e.h).row(e.row)[e.column] = S(sum);
  }
}

}  // namespace

bool naive_attention_backward_supports(const AttentionBackward&) { return true; }

void naive_attention_backward(const AttentionBackward& p) {
  AttentionForward again = p;
  again.lse = empty_like(p.lse);
  const Tensor weights = naive_weights(again), ds = empty_like(weights);
  const Tensor y = empty({p.q.size(0), p.q.size(1), p.q.size(2), p.v.size(3)}, weights.dtype(), p.q.device());
  naive_read(y, weights, p);
  visit_device_floating(p.q.dtype(), "attention_backward", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const NaiveBackward<S> x{naive_inputs<S>(p),
                             Heads<S>::of(p.dy),
                             Heads<T>::of(weights),
                             Heads<T>::of(y),
                             Heads<T>::of(ds),
                             Heads<T>::of(p.dbias),
                             p.dlse.defined() ? p.dlse.data<T>() : nullptr,
                             static_cast<int>(p.q.size(1))};
    VITRINE_LAUNCH((attention_naive_score_gradients<S>), blocks_for(ds.numel()), kThreads, 0, x, ds.numel());
    VITRINE_LAUNCH((attention_naive_query_gradients<S>), blocks_for(p.dq.numel()), kThreads, 0,
                   Heads<S>::of(p.dq), x, p.dq.numel());
    VITRINE_LAUNCH((attention_naive_key_gradients<S>), blocks_for(p.dk.numel()), kThreads, 0,
                   Heads<S>::of(p.dk), x, p.dk.numel());
    VITRINE_LAUNCH((attention_naive_value_gradients<S>), blocks_for(p.dv.numel()), kThreads, 0,
                   Heads<S>::of(p.dv), x, p.dv.numel());
  });
}

}  // namespace vitrine::cuda
