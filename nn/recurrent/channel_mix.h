// The feed-forward part of RWKV, which also reads the position before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/names.h"
#include "nn/layers/linear.h"
#include "nn/recurrent/causal_mixer.h"

namespace vitrine::nn {

/// The feed-forward part of a block: a dense one (nn/layers/feed_forward.h) or a ChannelMix.
enum class FeedForwardKind { dense, rwkv4, rwkv7 };
inline EnumNames<FeedForwardKind> names_of(FeedForwardKind) {
  return {"kind of feed-forward part",
          {{"dense", FeedForwardKind::dense},
           {"rwkv4", FeedForwardKind::rwkv4},
           {"rwkv7", FeedForwardKind::rwkv7}}};
}

/// Each position is first mixed with the one before it, x₋₁, by learned shares μ of the channels.
///   rwkv4   σ(W_r·x_r)·W_v·relu(W_k·x_k)²    x_m = μ_m·x + (1 − μ_m)·x₋₁, m = r, k
///   rwkv7   W_v·relu(W_k·x_k)²               x_k = x + (x₋₁ − x)·μ_k
/// Decoding keeps the last position as its state. Errors: those of CausalMixer; the kind dense; a
/// trace, because no weights exist. Peng et al. 2023 and 2025 (channel mixing).
class ChannelMix : public CausalMixer {
 public:
  /// Of the options the width C, causality, the bias (that of the query) and out_deviation count.
  ChannelMix(FeedForwardKind kind, const MixerOptions& options, int64_t hidden);
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  ChannelMix clone();

  Parameter mix_receptance, mix_key;   ///< μ, [C]; the first is undefined for rwkv7
  std::unique_ptr<Linear> receptance;  ///< W_r [C, C]; null for rwkv7
  Linear key, value;                   ///< W_k [hidden, C] and W_v [C, hidden]

 private:
  Tensor run(const Tensor& x, std::vector<Tensor>& state, MixerTrace* trace) const override;

  FeedForwardKind kind_;
};

}  // namespace vitrine::nn
