// A Transformer block: a mixer, optionally a cross-attention to a source, and a feed-forward part,
// each with a norm and a residual connection.
#pragma once

#include <memory>

#include "nn/attention/multi_head.h"
#include "nn/layers/dropout.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/norm.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// Sizes and parts of a block.
struct BlockOptions {
  MixerOptions mixer = {};
  /// Adds a cross-attention between the mixer and the feed-forward part. It has the sizes and the
  /// parts of the mixer, except the parts that need positions.
  bool cross = false;
  int64_t hidden = 0;  ///< width inside the feed-forward part; 0 = 4·width
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer;
  bool pre_norm = true;   ///< norms before each part; if false, after each sum
  Bias bias = Bias::yes;  ///< of the feed-forward part
  double dropout = 0;     ///< in [0, 1): probability for the outputs of the parts
};

/// Pre-norm: x + mixer(norm(x)), then x + cross(norm(x), source), then x + feed_forward(norm(x)).
/// Post-norm: norm(x + mixer(x)) and so on. Vaswani et al. 2017; Xiong et al. 2020.
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const BlockOptions& options);
  /// x [B, T, C] → [B, T, C]. `call` is for the mixer. `cross` is for the cross-attention: mask,
  /// source, lengths, and in decoding a state from make_source_state.
  Tensor forward(const Tensor& x, const MixerCall& call, const MixerCall& cross = {}) const;
  void fields(Fields& f) override;
  TransformerBlock clone();

  Norm mixer_norm;
  std::unique_ptr<Mixer> mixer;
  std::unique_ptr<Norm> cross_norm;  ///< null without cross-attention
  std::unique_ptr<MultiHeadAttention> cross;
  Norm feed_forward_norm;
  FeedForward feed_forward;
  Dropout dropout;

 private:
  BlockOptions options_;
};

}  // namespace vitrine::nn
