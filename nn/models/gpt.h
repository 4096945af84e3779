// A decoder-only Transformer in the manner of GPT-2 (Radford et al. 2019), its parts interchangeable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/options.h"

namespace vitrine::nn {

/// What tells tokens apart by their place. `automatic`: learned, or nothing where the attention brings its own (rotary,
/// alibi).
enum class Positions { automatic, learned, sinusoidal, none };
inline EnumNames<Positions> names_of(Positions) {
  return {"kind of positions",
          {{"automatic", Positions::automatic},
           {"learned", Positions::learned},
           {"sinusoidal", Positions::sinusoidal},
           {"none", Positions::none}},
          " (rotary and alibi are parts of attention)"};
}

/// Sizes and parts of a Gpt. All sizes are at least 1 where 0 has no meaning of its own.
struct GptOptions {
  int64_t vocabulary = 65;             ///< V: number of tokens
  int64_t context = 64;                ///< the longest sequence
  int64_t width = 128;                 ///< C, a multiple of heads
  int64_t layers = 4;                  ///< number of blocks
  int64_t heads = 4;                   ///< H
  int64_t key_heads = 0;               ///< fewer than heads, a divisor of them: grouped queries; 0 = heads
  int64_t hidden = 0;                  ///< width inside the feed-forward part; 0 = 4·width
  double dropout = 0;                  ///< probability in [0, 1), of embeddings and of what blocks add
  std::string attention = "standard";  ///< parts joined by +, see parse_attention
  Activation activation = Activation::gelu_tanh;  ///< of the feed-forward part
  NormKind norm = NormKind::layer;                ///< of blocks and of the end
  bool pre_norm = true;   ///< norms before attention and feed-forward, else behind the sums
  Bias bias = Bias::yes;  ///< of the linear layers
  Positions positions = Positions::automatic;
  /// Saves memory in training: blocks keep their input only and are computed again in the backward.
  bool recompute_blocks = false;

  void list(OptionList& o);  ///< see nn/options.h
  /// Throws an error that says what is wrong with them.
  void validate() const;
};

/// x + attention(norm(x)), then x + feed_forward(norm(x)); in post-norm the norm comes behind the sum.
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const GptOptions& options);
  /// x [B, T, C] → [B, T, C], causal. With a cache, x continues what it holds; a trace keeps the weights.
  Tensor forward(const Tensor& x, KeyValueCache* cache = nullptr, AttentionTrace* trace = nullptr) const;
  void fields(Fields& f) override;
  TransformerBlock clone();

  Norm attention_norm;
  MultiHeadAttention attention;
  Norm feed_forward_norm;
  FeedForward feed_forward;
  Dropout dropout;

 private:
  GptOptions options_;
};

/// Token (and position) embeddings, blocks, a norm, and logits by the embedding's own table: logits = features·tokensᵀ. Weights
/// start as N(0, 0.02²), those of the projections that add to the residual stream as residual_deviation says.
class Gpt : public Module {
 public:
  explicit Gpt(const GptOptions& options);  ///< options that contradict each other are an error (validate)
  /// ids [B, T] → logits [B, T, V]. With caches (one per layer), ids continue what they hold. `traces` takes one per layer.
  /// More positions than the context, and ids outside [0, V), are errors.
  Tensor forward(const Tensor& ids, std::vector<KeyValueCache>* caches = nullptr,
                 std::vector<AttentionTrace>* traces = nullptr) const;
  /// The two halves of forward: ids [B, T] → features [B, T, C] → logits [B, T, V].
  Tensor features(const Tensor& ids, std::vector<KeyValueCache>* caches = nullptr,
                  std::vector<AttentionTrace>* traces = nullptr) const;
  Tensor logits(const Tensor& features) const;
  void fields(Fields& f) override;
  Gpt clone();
  const GptOptions& options() const { return options_; }

  Embedding tokens;     ///< also the output layer: the weights are tied
  Parameter positions;  ///< [context, C]; undefined unless learned
  Dropout dropout;
  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  Norm final_norm;

 private:
  /// With the dtype and on the device of `like`.
  Tensor position_rows(int64_t begin, int64_t end, const Tensor& like) const;

  GptOptions options_;
};

}  // namespace vitrine::nn
