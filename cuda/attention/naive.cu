// Step 1, as in a textbook, for every attention: the weights of all queries and keys are a matrix
// in memory, and one thread computes a row of them, or an element of the result, in plain loops.
//
//   s = form(q·k),   w = e^(s − lse),   lse = log Σ e^s;   y = Σ w·v, or LASER's log Σ w·e^v
//
// A head writes Tq·Tk weights and reads each Dv times, and each query reads all keys again. So
// memory grows with the square of the length, and loads limit the speed, not multiplications.
#include "cuda/attention/naive.h"

#include "core/creation.h"
#include "cuda/sum_exp.h"

namespace vitrine::cuda {
namespace {

/// One thread per query: its scores become weights.
template <class S, class T>
__global__ void attention_naive_weights(Heads<T> weights, T* lse, AttentionInputs<S> in, int heads,
                                        int64_t count) {
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, heads, in.scores.queries, 1);
    const Scores<T> scores = in.scores.of_head(e.b, e.h);
    const S* const q = in.q.rows(e.b, e.h).row(e.row);
    const HeadMatrix<S> k = in.k.rows(e.b, e.h / in.group);
    T* const w = weights.rows(e.b, e.h).row(e.row);
    T largest = minus_infinity<T>(), total = 0;
    for (int j = 0; j < scores.keys; ++j) {
      w[j] = scores.score(dot(q, k.row(j), in.size), e.row, j);
      largest = math::max(largest, w[j]);
    }
    const T shift = largest == minus_infinity<T>() ? T(0) : largest;  // a query that sees no key
    for (int j = 0; j < scores.keys; ++j) total += math::exp(w[j] - shift);
    lse[at] = shift + math::log(total);
    for (int j = 0; j < scores.keys; ++j) {
      const T log_weight = w[j] == minus_infinity<T>() ? w[j] : w[j] - lse[at];
      w[j] = in.laser ? log_weight : math::exp(log_weight);
    }
  }
}

/// One thread per element of y.
template <class S, class T, class Y>
__global__ void attention_naive_read(Heads<Y> y, Heads<T> weights, AttentionInputs<S> in, int heads,
                                     int64_t count) {
  for (int64_t at = first_index(); at < count; at += grid_stride()) {
    const HeadElement e(at, heads, in.scores.queries, in.channels);
    const T* const w = weights.rows(e.b, e.h).row(e.row);
    const HeadMatrix<S> v = in.v.rows(e.b, e.h / in.group);
    T mean = 0;
    SumExp<T> laser{minus_infinity<T>(), T(0)};
    for (int j = 0; j < in.scores.keys; ++j) {
      const auto value = static_cast<T>(v.row(j)[e.column]);
      if (in.laser)
        laser = merge(laser, SumExp<T>{w[j] + value, T(1)});
      else
        mean = std::fma(w[j], value, mean);
    }
    if (laser.largest != minus_infinity<T>()) mean = laser.largest + math::log(laser.total);
    y.rows(e.b, e.h).row(e.row)[e.column] = Y(mean);
  }
}

}  // namespace

bool naive_attention_supports(const AttentionForward&) { return true; }

void naive_attention(const AttentionForward& p) { naive_read(p.y, naive_weights(p), p); }

Tensor naive_weights(const AttentionForward& p) {
  Tensor weights = empty({p.q.size(0), p.q.size(1), p.q.size(2), p.k.size(2)},
                         accumulation_dtype(p.q.dtype()), p.q.device());
  visit_device_floating(p.q.dtype(), "attention", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((attention_naive_weights<S, T>), blocks_for(p.lse.numel()), kThreads, 0,
                   Heads<T>::of(weights), p.lse.data<T>(), naive_inputs<S>(p), static_cast<int>(p.q.size(1)),
                   p.lse.numel());
  });
  return weights;
}

void naive_read(const Tensor& y, const Tensor& weights, const AttentionForward& p) {
  visit_device_floating(p.q.dtype(), "attention", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    const auto launch = [&]<class Y>(Type<Y>) {
      VITRINE_LAUNCH((attention_naive_read<S, T, Y>), blocks_for(y.numel()), kThreads, 0, Heads<Y>::of(y),
                     Heads<T>::of(weights), naive_inputs<S>(p), static_cast<int>(p.q.size(1)), y.numel());
    };
    y.dtype() == p.q.dtype() ? launch(Type<S>()) : launch(Type<T>());
  });
}

}  // namespace vitrine::cuda
