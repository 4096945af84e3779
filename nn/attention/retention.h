// Multi-scale retention (Sun et al. 2023): linear attention whose heads forget at fixed rates.
#pragma once

#include "nn/attention/scan_mixer.h"

namespace vitrine::nn {

/// S_t = γ_h·S_{t−1} + k_tᵀ·v_t and o_t = q_t·S_t/√D, with γ_h = 1 − 2^(−5 − h) for the heads
/// h = 0, 1, …. Queries and keys are rotated in pairs (2i, 2i + 1), by the angle t·theta^(−2i/D).
/// The output of a head has a LayerNorm without gain, then the gate. The head size must be even.
class Retention : public ScanMixer {
 public:
  explicit Retention(const MixerOptions& options, double theta = 10000);
  Retention clone();

 private:
  void prepare(Heads& heads, const Tensor& x, int64_t first) const override;
  Tensor normalized(const Tensor& o) const override;

  double theta_;
};

}  // namespace vitrine::nn
