// RWKV-7: a matrix as state, whose decay, erasure and input depend on the position.
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/linear.h"
#include "nn/recurrent/causal_mixer.h"

namespace vitrine::nn {

/// Each position is mixed with the one before it: x_m = x + (x₋₁ − x)·μ_m, m = r, w, k, v, a, g.
/// With heads of D channels, κ the keys of unit length, and ⊙ the product of channels,
///   S_t = diag(w)·S_{t−1} − (a⊙κ)ᵀ·(κ·S_{t−1}) + k̃ᵀ·v        o_t = r·S_t
///   w = exp(−e^(−1/2)·σ(w₀ + tanh(x_w·W₁)·W₂))   a = σ(a₀ + x_a·A₁·A₂)   k̃ = k⊙(1 + (a − 1)⊙α)
/// o is normalized per head. The position's own value is added with the weight Σ r⊙k̃⊙ρ, and the
/// sum is multiplied by the gate σ(x_g·G₁)·G₂ and projected. Peng et al. 2025.
class Rwkv7 : public CausalMixer {
 public:
  /// `rank`: of the projections from which w, a and g come. `blends`: the layer mixes the values of
  /// a first layer into its own.
  Rwkv7(const MixerOptions& options, int64_t rank, bool blends = false);
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  Rwkv7 clone();

  /// The outputs of x. `first_values` [B, T, C], for a layer that blends, are the values of the
  /// first layer of a model.
  Tensor mix(const Tensor& x, const Tensor& first_values, std::vector<Tensor>& state,
             MixerTrace* trace = nullptr) const;

  /// A projection through few channels: start + f(x·down)·up.
  struct Bottleneck : Module {
    Bottleneck(int64_t width, int64_t rank, double start);
    void fields(Fields& f) override;
    Parameter start, down, up;  ///< [C], [C, rank] and [rank, C]
  };

  Parameter mix_receptance, mix_decay, mix_key, mix_value, mix_erase, mix_gate;  ///< μ, [C] each
  Linear receptance, key, value, out;                                            ///< [C, C] each
  Bottleneck decay, erase, gate;                                                 ///< w, a, g
  std::unique_ptr<Bottleneck> blend;  ///< of first_values; null if there is no blending
  Parameter key_scale, key_erase;     ///< [C]: of κ, and α
  Parameter own;                      ///< ρ [H, D]
  Parameter gain, bias;               ///< [C], of the norm of the heads
  double eps = 64e-5;                 ///< of that norm

 private:
  Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const override;
  int64_t rank_;
};

}  // namespace vitrine::nn
