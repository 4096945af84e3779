// Code that the passes of step `naive` share: the weights, which are a tensor, and the read of the
// values.
#pragma once

#include "cuda/attention/scores.h"
#include "cuda/attention/steps.h"

namespace vitrine::cuda {

/// The weights [B, H, Tq, Tk] of p in the wide dtype; for LASER, the logarithms of the weights.
/// Also writes p.lse = log Σ e^scores.
Tensor naive_weights(const AttentionForward& p);
/// y [B, H, Tq, Dv] = w·v, or LASER's log Σ e^(log w + v). The dtype of y is the dtype of v or the
/// wide dtype.
void naive_read(const Tensor& y, const Tensor& weights, const AttentionForward& p);

/// Element `at` of a tensor [B, heads, rows, columns].
struct HeadElement {
  int b, h, row, column;

  __device__ HeadElement(int64_t at, int heads, int rows, int columns)
      : b(static_cast<int>(at / columns / rows / heads)),
        h(static_cast<int>(at / columns / rows % heads)),
        row(static_cast<int>(at / columns % rows)),
        column(static_cast<int>(at % columns)) {}
};

template <class S>
__device__ AccumulatorOf<S> dot(const S* x, const S* y, int size) {
  using T = AccumulatorOf<S>;
  T sum = 0;
  for (int d = 0; d < size; ++d) sum = std::fma(static_cast<T>(x[d]), static_cast<T>(y[d]), sum);
  return sum;
}

template <class S>
AttentionInputs<S> naive_inputs(const AttentionForward& p) {
  return {Heads<S>::of(p.q),
          Heads<S>::of(p.k),
          Heads<S>::of(p.v),
          Scores<AccumulatorOf<S>>::of(p.q, p.k, p.bias, p.slopes, p.allowed, p.form),
          static_cast<int>(p.q.size(3)),
          static_cast<int>(p.v.size(3)),
          static_cast<int>(p.q.size(1) / p.k.size(1)),
          0,
          p.form.read == AttentionRead::laser};
}

}  // namespace vitrine::cuda
