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

/// A sum of weights up to this number counts as 0 where a query is read: 2⁻¹⁰⁰ in float32, and
/// 2⁻⁹⁰⁰ in float64. The derivatives of x/total are as large as 1/total, and would overflow.
double smallest_total(DType dtype);
/// x/total, and x where the total is at most `smallest`.
Tensor share_of(const Tensor& x, const Tensor& total, double smallest = 0);

/// Weights w·f/Σ w·f for factors f ≥ 0, which are broadcast. If the weights are the softmax of
/// scores s, the new ones are the softmax of s + log f, so that no small sum is divided by. A
/// factor of 0 has a gradient too, which a straight-through estimator uses. This gradient contains
/// e^(s − m) with the largest m = s + log f of the row. It would overflow, so s − m is at most 40.
Weighting reweighted(const Weighting& weighting, const Tensor& factors);

/// [.., Tk, 1]: whether any query sees the value. Undefined where no key is hidden.
Tensor seen_values(const Weighting& weighting);

}  // namespace vitrine::nn
