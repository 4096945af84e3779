// Output layers besides a linear layer: what turns features into log-probabilities or values.
#pragma once

#include "nn/layers/linear.h"

namespace vitrine::nn {

/// log(softmax(logits)·eᵛ) = LSE_c(log_softmax(logits)_c + v_cd): LASER attention whose keys are
/// the classes. logits [..., V], v [V, D] → [..., D]. Between the least and the largest v of a
/// channel. For eᵛ = identity the result is log_softmax(logits).
Tensor laser_output(const Tensor& logits, const Tensor& v);

/// log Σ_k π_k·softmax(W_out·tanh(W_k·x)), π = softmax(W_prior·x): x [..., C] → log-probabilities
/// [..., V], for nll_loss. The rank of the log-probabilities over all x is not limited by C, as
/// that of one softmax is. It is LASER over the mixture, with log-softmaxes as values. The prior
/// and the hidden layers have no bias. Yang et al. 2018.
class MixtureOfSoftmaxes : public Module {
 public:
  /// K = `mixtures` ≥ 1 softmaxes over V = `classes`, of H = `inside` channels each; 0: as many as
  /// the width C.
  MixtureOfSoftmaxes(int64_t width, int64_t classes, int64_t mixtures, int64_t inside = 0);
  Tensor forward(const Tensor& x) const;
  void fields(Fields& f) override;
  MixtureOfSoftmaxes clone();

  Linear prior, hidden, out;  ///< C → K, C → K·H, H → V
};

}  // namespace vitrine::nn
