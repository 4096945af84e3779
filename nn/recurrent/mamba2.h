// Mamba-2: a state space whose decay is one number for each head.
#pragma once

#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/recurrent/causal_mixer.h"

namespace vitrine::nn {

/// [z, u, b, c, δ] = in(x) with D, D, N, N and H channels, [u, b, c] ← silu(conv([u, b, c])),
/// Δ = softplus(δ + step). Head h has a state S [N, D/H]:
///   Sₜ = exp(−Δₜ·e^rate)·Sₜ₋₁ + bₜᵀ·(Δₜ·uₜ)        yₜ = cₜ·Sₜ + skip·uₜ
/// and the output is out(RMSNorm(y·silu(z))). All heads share b and c. It is the selective scan of
/// Mamba with one decay for all numbers of a head, which makes it a linear_scan with the queries c,
/// the keys b and the values Δ·u. Dao and Gu 2024.
class Mamba2 : public CausalMixer {
 public:
  struct Sizes {
    int64_t states = 16;   ///< N, the rows of a state
    int64_t channels = 0;  ///< D, a multiple of the heads; 0 = 2·C
    int64_t kernel = 4;    ///< of the convolution
  };
  Mamba2(const MixerOptions& options, const Sizes& sizes);
  std::string explain(const MixerCall& call = {}) const override;
  /// The state: the last kernel − 1 inputs of the convolution, and S [B, H, N, D/H].
  Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace = nullptr) const override;
  void fields(Fields& f) override;
  Mamba2 clone();

 private:
  Sizes sizes_;  // first, because the members below have these sizes

 public:
  Linear in;             ///< [2·D + 2·N + H, C]
  CausalConv1d conv;     ///< [D + 2·N, kernel]
  Parameter step;        ///< [H]; starts so that Δ is from 0.001 to 0.1
  Parameter rates;       ///< [H]; e^rate starts evenly spaced from 1 to 16
  Parameter skip;        ///< [H], starts as 1
  Parameter norm_scale;  ///< [D], starts as 1
  Linear out;            ///< [C, D]
};

}  // namespace vitrine::nn
