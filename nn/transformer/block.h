// A Transformer block: a mixer, optionally a cross-attention to a source, and a feed-forward part,
// each with a norm and a residual connection.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/layers/drop_path.h"
#include "nn/layers/dropout.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/mixture_of_experts.h"
#include "nn/layers/norm.h"
#include "nn/mixer.h"
#include "nn/recurrent/channel_mix.h"
#include "nn/transformer/residual.h"

namespace vitrine::nn {

/// Sizes and parts of a block.
struct BlockOptions {
  MixerOptions mixer = {};
  /// Adds a cross-attention between the mixer and the feed-forward part. It has the sizes and the
  /// parts of the mixer, except the parts that need positions.
  bool cross = false;
  int64_t hidden = 0;  ///< width inside the feed-forward part; 0 = 4·width
  Activation activation = Activation::gelu_tanh;
  /// Dense, or a channel mixing of RWKV, whose activation is relu²
  FeedForwardKind feed_forward = FeedForwardKind::dense;
  /// A mixture of experts as the feed-forward part, if experts.count > 0
  ExpertOptions experts = {};
  NormKind norm = NormKind::layer;
  double norm_epsilon = 1e-5;  ///< added to the variance, or to the mean square
  Residual residual = Residual::pre;
  DeepNorm deep_norm = {};  ///< for Residual::deepnet; a stack sets it from its number of layers
  Bias bias = Bias::yes;    ///< of the feed-forward part
  double dropout = 0;       ///< in [0, 1): probability for the outputs of the parts
  /// In [0, 1): the probability that the output of a part is dropped for a whole row. In a stack it
  /// is that of the last block, and grows linearly with depth. Huang et al. 2016.
  double drop_path = 0;

  /// Throws an error that explains the problem if the options contradict each other.
  void validate() const;
};

/// bool [B, time]: which positions of x, of a call without a source, are not padding. It may come
/// after the length of a row, or before mask.start. Undefined: there is none.
Tensor real_positions(const MixerCall& call, int64_t time);

/// Pre-norm: x + mixer(norm(x)), then x + cross(norm(x), source), then x + feed_forward(norm(x)).
/// Post-norm: norm(shortcut(x) + mixer(x)) and so on; see Residual.
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const BlockOptions& options);
  /// x [B, T, C] → [B, T, C]. `call` is for the mixer, with a state of make_state in decoding.
  /// `cross` is for the cross-attention: mask, source and lengths. `routing`, if not null, receives
  /// the routing of a mixture of experts.
  Tensor forward(const Tensor& x, const MixerCall& call, const MixerCall& cross = {},
                 Routing* routing = nullptr) const;
  /// What each part of a pre-norm block adds to its input, for residual streams of another form.
  Tensor mixer_part(const Tensor& x, const MixerCall& call) const;
  Tensor feed_forward_part(const Tensor& x, const MixerCall& call) const;
  /// The state before the first position: that of the mixer, or a StateList of the states of the
  /// mixer, the cross-attention and the channel mixing, as far as the block has them.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;
  TransformerBlock clone();
  std::vector<Shortcut*> shortcuts();  ///< of the parts, in the order in which they run

  Norm mixer_norm;
  std::unique_ptr<Mixer> mixer;
  Shortcut mixer_shortcut;
  std::unique_ptr<Norm> cross_norm;  ///< null without cross-attention
  std::unique_ptr<MultiHeadAttention> cross;
  std::unique_ptr<Shortcut> cross_shortcut;
  Norm feed_forward_norm;
  /// One of the three; the others are null
  std::unique_ptr<FeedForward> feed_forward;
  std::unique_ptr<MixtureOfExperts> experts;
  std::unique_ptr<ChannelMix> channel_mix;
  Shortcut feed_forward_shortcut;
  Dropout dropout;
  DropPath drop_path;
  /// Called with the output of each part, before dropout, in the order in which they run.
  std::function<void(const Tensor& f)> on_part;

 private:
  /// What a part adds to the shortcut.
  Tensor added(const Tensor& f) const;
  Tensor feed(const Tensor& x, const MixerCall& call, Routing* routing = nullptr) const;
  /// The states of the parts in a state of the block; null without one.
  struct States {
    DecodingState *mixer = nullptr, *cross = nullptr, *channels = nullptr;
  };
  States states_of(DecodingState* state) const;

  BlockOptions options_;
};

}  // namespace vitrine::nn
