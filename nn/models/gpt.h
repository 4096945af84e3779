// A decoder-only Transformer like GPT-2 (Radford et al. 2019), with interchangeable parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/layers/output.h"
#include "nn/models/language_model.h"
#include "nn/options.h"
#include "nn/transformer/position_rows.h"

namespace vitrine::nn {

/// Sizes and parts of a Gpt. Every size is at least 1, except where 0 has a meaning of its own.
struct GptOptions {
  int64_t vocabulary = 65;  ///< V: number of tokens
  int64_t context = 64;     ///< the longest sequence
  int64_t width = 128;      ///< C, a multiple of heads
  int64_t layers = 4;       ///< number of blocks
  int64_t heads = 4;        ///< H
  /// A divisor of heads; fewer than heads: grouped-query attention; 0 = heads
  int64_t key_heads = 0;
  int64_t hidden = 0;  ///< width inside the feed-forward part; 0 = 4·width
  FeedForwardKind feed_forward = FeedForwardKind::dense;
  /// A mixture of experts in place of the feed-forward part, if experts.count > 0
  ExpertOptions experts = {};
  /// In [0, 1): probability for the embeddings and for the outputs that blocks add
  double dropout = 0;
  /// In [0, 1): the probability that the last block drops a part for a whole row
  double drop_path = 0;
  std::string mixer = "standard";                 ///< the name of the mixer; see parse_mixer
  Activation activation = Activation::gelu_tanh;  ///< of the feed-forward part
  NormKind norm = NormKind::layer;                ///< of the blocks and of the final norm
  double norm_epsilon = 1e-5;                     ///< what the norm adds to the variance
  Residual residual = Residual::pre;              ///< where the norms are; see residual.h
  Bias bias = Bias::yes;                          ///< of the linear layers
  /// The output layer shares the weights of the token embedding; if false, it has weights of its
  /// own
  bool tied = true;
  /// K > 0: the output layer is a MixtureOfSoftmaxes, the exp transform of LASER at the output; the
  /// logits are then log-probabilities. 0: a linear layer
  int64_t output_mixtures = 0;
  Positions positions = Positions::automatic;
  /// Saves memory in training: a block stores only its input and is computed again in the backward
  /// pass.
  bool recompute_blocks = false;
  bool reversible = false;  ///< blocks on two streams; see StackOptions
  /// A universal Transformer: one block, which each position takes up to `layers` times. It brings
  /// positions. The fields after this one belong to it; see StackOptions.
  bool universal = false;
  HaltingKind halting = HaltingKind::universal;
  double ponder = 0.01;

  void list(OptionList& o);  ///< see nn/options.h
  /// Throws an error that explains the problem if the options are not valid.
  void validate() const;
};

/// Token embeddings and position embeddings, a decoder, and logits: features·tokensᵀ, or a separate
/// output layer if the weights are not tied. Weights start as N(0, 0.02²); for the projections that
/// add to the residual stream the deviation is that of residual_deviation. A universal Transformer
/// reads √C times the token embeddings, which start as N(0, 1/C).
class Gpt : public LanguageModel {
 public:
  /// Options that contradict each other are an error; see validate.
  explicit Gpt(const GptOptions& options);
  int64_t vocabulary() const override { return options_.vocabulary; }
  int64_t context() const override { return options_.context; }
  std::string kind() const override { return "gpt"; }
  OptionValues settings() const override { return option_values(options_, {Role::result}); }
  /// Logits; of each block the output or, without recomputation, both sums, queries, heads and
  /// the hidden channels. Of reversible blocks nothing, of a universal Transformer one step.
  int64_t values_per_token() const override;
  Tensor features(const Tensor& ids, const StackCall& call = {}) const override;
  Tensor logits(const Tensor& features) const override;
  /// Its capacity is the context. It is unlimited if neither the mixers nor the positions have a
  /// limit.
  std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const override;
  void fields(Fields& f) override;
  Gpt clone();
  const GptOptions& options() const { return options_; }

  Embedding tokens;     ///< also the output layer if the weights are tied
  Parameter positions;  ///< [context, C]; undefined unless learned
  Dropout dropout;
  Decoder decoder;
  std::unique_ptr<Linear> head;                 ///< null if the weights are tied, or with a mixture
  std::unique_ptr<MixtureOfSoftmaxes> mixture;  ///< null unless the options ask for it

 private:
  /// The position embeddings of `time` positions after `past`, of all rows [T, C] or, if there is
  /// padding, of each row [B, T, C]. With the dtype and device of `like`.
  Tensor position_rows(int64_t past, int64_t time, const Tensor& padding, const Tensor& like) const;

  GptOptions options_;
};

}  // namespace vitrine::nn
