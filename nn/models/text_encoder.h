// A Transformer that reads a whole text at once, like BERT (Devlin et al. 2019).
#pragma once

#include "nn/attention/memory_tokens.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/transformer/position_rows.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// Sizes and parts of a TextEncoder. The mixer of the stack's block sets the width C, and as its
/// context the longest text.
struct TextEncoderOptions {
  int64_t vocabulary = 65;  ///< V: number of tokens
  /// Kinds of segments, such as 2 for a question and a text; 0: there is one segment
  int64_t segments = 0;
  Positions positions = Positions::automatic;
  bool embedding_norm = false;  ///< a norm of the sum of the embeddings
  /// The output layer reads norm(act(W·x + b)) with the activation of the blocks, and has a bias
  bool output_transform = false;
  bool pooler = false;  ///< tanh(W·x₀ + b) of the first position, as the feature of the whole text
  /// The pooler reads the mean of all positions instead. A small model trained on few texts may
  /// classify better with it
  bool mean_pooling = false;
  int64_t classes = 0;  ///< kinds of texts, read from the pooler; 0: texts are not classified
  /// Learned vectors before the embeddings of each text, for prompt tuning (MemoryTokens); 0: none.
  /// The mixer `linformer` has weights for `context` positions, which a text and its prompt share.
  int64_t prompt = 0;
  StackOptions stack = {};
};

/// The sum of token, position and segment embeddings, then an Encoder: each position sees the whole
/// text. Weights start as N(0, 0.02²), as in the paper. A layer on top of the features classifies
/// each token; on top of one feature, such as the first, it classifies the text.
class TextEncoder : public Module {
 public:
  explicit TextEncoder(const TextEncoderOptions& options);  ///< out of range: an error
  /// ids [B, T] → features [B, T, C]. Row b has call.lengths[b] tokens, and what follows them is
  /// padding, which changes nothing. `segments`: int64 [B, T] in [0, options.segments); undefined:
  /// all are 0. The vectors of a prompt come before the text, take no positions of the context, and
  /// are left out of the result. Errors: ids or segments out of range, more tokens than the
  /// context, and call.padding with a prompt.
  Tensor features(const Tensor& ids, const StackCall& call = {}, const Tensor& segments = {}) const;
  /// The logits of masked language modeling, by the weights of the embedding: [..., C] → [..., V].
  Tensor logits(const Tensor& features) const;
  /// The feature of each text by the pooler: [B, T, C] → [B, C]. With options.mean_pooling, row b
  /// is the mean of its first lengths[b] positions; undefined: of all.
  Tensor pooled(const Tensor& features, const Tensor& lengths = {}) const;
  /// The logits of the classes of each text, a linear layer on pooled(): [B, T, C] → [B, classes].
  Tensor classify(const Tensor& features, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  TextEncoder clone();
  const TextEncoderOptions& options() const { return options_; }

  Embedding tokens;                     ///< also the output layer
  std::unique_ptr<Embedding> segments;  ///< null without segments
  Parameter positions;                  ///< [context, C]; undefined unless learned
  std::unique_ptr<Norm> embedding_norm;
  Dropout dropout;
  std::unique_ptr<MemoryTokens> prompt;  ///< null without a prompt
  Encoder encoder;
  // Of the heads, those that the options ask for.
  std::unique_ptr<Linear> transform;
  std::unique_ptr<Norm> transform_norm;
  Parameter output_bias;  ///< [V]
  std::unique_ptr<Linear> pooler, classes;

 private:
  TextEncoderOptions options_;
};

}  // namespace vitrine::nn
