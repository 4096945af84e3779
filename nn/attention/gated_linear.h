// Gated linear attention (Yang et al. 2023): each position decides what the state forgets.
#pragma once

#include "nn/attention/scan_mixer.h"

namespace vitrine::nn {

/// S_t = diag(α_t)·S_{t−1} + k_tᵀ·v_t and o_t = q_t·S_t/√D, with α = σ(W₂·W₁·x + b)^(1/16): a decay
/// for each channel of a key, from a projection of low rank. The output of a head has a LayerNorm
/// without gain, then the gate. Keys have as many channels as values; in the paper half as many.
class GatedLinear : public ScanMixer {
 public:
  /// `rank` is the number of rows of W₁.
  explicit GatedLinear(const MixerOptions& options, int64_t rank = 16);
  void fields(Fields& f) override;
  GatedLinear clone();

  Linear decay_in, decay_out;  ///< W₁ [rank, C], and W₂ [C, rank] with b

 private:
  void prepare(Heads& heads, const Tensor& x, int64_t first) const override;
  Tensor normalized(const Tensor& o) const override;
};

}  // namespace vitrine::nn
