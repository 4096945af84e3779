// Mamba: a selective state space with a causal convolution before it and a gate after it.
#pragma once

#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/recurrent/causal_mixer.h"

namespace vitrine::nn {

/// [u, z] = in(x) with D channels each, u ← silu(conv(u)), [δ, b, c] = select(u),
/// Δ = softplus(step(δ)), y = out(scan(u, Δ, −e^rates, b, c)·silu(z)); see ops/selective_scan.h.
/// The convolution is causal, with a kernel for each channel. There is no norm and no residual
/// connection. Gu and Dao 2023.
class Mamba : public CausalMixer {
 public:
  struct Sizes {
    int64_t states = 16;   ///< N, the numbers that a channel stores
    int64_t channels = 0;  ///< D; 0 = 2·C
    int64_t kernel = 4;    ///< of the convolution
    int64_t rank = 0;      ///< of δ; 0 = ⌈C/16⌉
  };
  Mamba(const MixerOptions& options, const Sizes& sizes);
  std::string explain(const MixerCall& call = {}) const override;
  /// The state: the last kernel − 1 inputs of the convolution, and h.
  Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace = nullptr) const override;
  void fields(Fields& f) override;
  Mamba clone();

 private:
  Sizes sizes_;  // first, because the members below have these sizes

 public:
  Linear in;          ///< [2·D, C]
  CausalConv1d conv;  ///< [D, kernel]
  Linear select;      ///< [rank + 2·N, D], without bias
  Linear step;        ///< [D, rank]; the bias starts so that Δ is from 0.001 to 0.1
  Parameter rates;    ///< [D, N]; start as log(1), …, log(N)
  Parameter skip;     ///< [D], starts as 1
  Linear out;         ///< [C, D]
};

}  // namespace vitrine::nn
