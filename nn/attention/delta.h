// DeltaNet (Yang et al. 2024): the state is corrected by the error of its own prediction.
#pragma once

#include "nn/attention/scan_mixer.h"

namespace vitrine::nn {

/// S_t = S_{t−1} + β_t·k_tᵀ·(v_t − k_t·S_{t−1}) and o_t = q_t·S_t/√D: what the state gives for the
/// key k_t moves towards v_t by the share β = σ(W_b·x), a number per head. Queries and keys are
/// silu(·), then scaled to unit length. The output of a head has an RMSNorm without gain.
/// Gated (Yang, Kautz, Hatamizadeh 2024): S_{t−1} is first multiplied by exp(−e^a·softplus(W_d·x +
/// b)), with a and b per head, and the output has a gate.
class DeltaNet : public ScanMixer {
 public:
  explicit DeltaNet(const MixerOptions& options, bool gated = false);
  void fields(Fields& f) override;
  DeltaNet clone();

  Linear beta;                    ///< W_b [H, C]
  std::unique_ptr<Linear> decay;  ///< W_d [H, C] with b, or null
  Parameter log_rate;             ///< a [H], or undefined

 private:
  void prepare(Heads& heads, const Tensor& x, int64_t first) const override;
  Tensor normalized(const Tensor& o) const override;
  /// x [B, T, C] → a number per head and position [B, H, T], in the wide dtype.
  Tensor per_head(const Linear& layer, const Tensor& x) const;
};

}  // namespace vitrine::nn
