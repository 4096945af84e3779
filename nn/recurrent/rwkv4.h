// RWKV-4: a recurrence that trains as an attention, because its weights do not depend on a query.
#pragma once

#include "nn/layers/linear.h"
#include "nn/recurrent/causal_mixer.h"

namespace vitrine::nn {

/// Each position is first mixed with the one before it: x_m = μ_m·x + (1 − μ_m)·x₋₁, m = r, k, v.
/// Then y = out(σ(W_r·x_r)·wkv(W_k·x_k, W_v·x_v)), where wkv is a running weighted average of each
/// channel (ops/wkv.h): the weight of a value decays by exp(−e^decay) with each further position.
/// Peng et al. 2023 (time mixing).
class Rwkv4 : public CausalMixer {
 public:
  explicit Rwkv4(const MixerOptions& options);
  std::string explain(const MixerCall& call = {}) const override;
  /// The state: the position before x, the mean and the log weight.
  Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace = nullptr) const override;
  void fields(Fields& f) override;
  Rwkv4 clone();

  Parameter mix_receptance, mix_key, mix_value;  ///< μ, [C] each
  Parameter decay, bonus;                        ///< [C] each
  Linear receptance, key, value, out;            ///< [C, C] each
};

}  // namespace vitrine::nn
