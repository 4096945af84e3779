// The weights of attention, and what is known about them.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The weights of a read.
struct Weighting {
  Tensor weights;           ///< [B, H, Tq, Tk]
  Tensor scores = {};       ///< the weights are their softmax; undefined if they are not a softmax
  Tensor visible = {};      ///< bool, broadcast to the weights; undefined if no key is hidden
  bool empty_rows = false;  ///< a query may see no key: its weights are 0, and its output is 0
};

/// A sum of weights below this number counts as 0, 2⁻¹⁰⁰ in float32 and 2⁻⁹⁰⁰ in float64. The
/// derivatives of x/total are as large as 1/total, so a smaller sum would overflow them.
double smallest_total(DType dtype);
/// bool: whether sums of weights count. NaN does, so that it is seen in the result.
Tensor is_weight(const Tensor& totals);
/// x/total, and 0 where the total counts as 0.
Tensor share_of(const Tensor& x, const Tensor& total);

/// Weights w·factor/Σ w·factor for factors ≥ 0, which are broadcast. Where the weights are a
/// softmax, each factor multiplies e^(score − m), with the largest score m of a factor above 0, so
/// that the sum cannot vanish. Where a key with the factor 0 has a score above m + 60, its gradient
/// is that of m + 60: it would overflow otherwise.
Weighting reweighted(const Weighting& weighting, const Tensor& factors);

/// [.., Tk, 1]: whether any query sees the value. Undefined where no key is hidden.
Tensor seen_values(const Weighting& weighting);

}  // namespace vitrine::nn
