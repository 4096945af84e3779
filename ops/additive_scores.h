// The scores of additive attention, as one op.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// s_ij = Σ_a w_a·tanh(q_ia + k_ja), for q [.., Tq, A], k [.., Tk, A] and w [.., A] with the same
/// leading axes: [.., Tq, Tk]. The hidden values [.., Tq, Tk, A] are never stored; the backward
/// computes them again. 16-bit operands are computed in float32, and the scores are rounded once.
/// Errors: shapes and dtypes that do not match. Bahdanau, Cho, Bengio 2014.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& w);

namespace define {  // the same in simpler ops; stores the hidden values
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& w);
}  // namespace define

}  // namespace vitrine
