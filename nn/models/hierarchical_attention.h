// Hierarchical attention: words are pooled into sentences, and sentences into a document (Yang et
// al. 2016, HAN).
#pragma once

#include <memory>

#include "nn/attention/pooling.h"
#include "nn/layers/linear.h"
#include "nn/models/word_encoder.h"

namespace vitrine::nn {

/// Sizes and parts of a HierarchicalAttention.
struct HierarchicalAttentionOptions {
  WordEncoderOptions words = {};
  int64_t classes = 2;  ///< kinds of documents
  /// 2: words and sentences. 1: words alone, so that a document is one sentence (aggregation)
  int64_t levels = 2;
  bool laser = false;  ///< attention reads by LASER in place of the weighted mean

  void list(OptionList& o);  ///< see nn/options.h
};

/// Sentence i is s_i = Σ_t a_it·h_it: h_it are its words in context, and the weights a_i are a
/// softmax of their scores by a learned query (nn/attention/pooling.h). The document is the same
/// sum of its sentences in context, with a query of their own. A linear layer gives the logits of
/// its class.
class HierarchicalAttention : public Module {
 public:
  explicit HierarchicalAttention(const HierarchicalAttentionOptions& options);

  struct Result {
    Tensor logits;            ///< [B, classes]
    Tensor word_weights;      ///< [B, S, W]; the weights of a sentence sum to 1
    Tensor sentence_weights;  ///< [B, S]; the weights of a document sum to 1; all 1 at one level
  };
  /// ids [B, S, W]: the words of S sentences; with one level, S is 1. Sentence i of document b has
  /// words[b, i] words (int64 [B, S]), and the document has sentences[b] sentences (int64 [B]). The
  /// rest is padding, which changes nothing. Undefined: there is no padding.
  Result forward(const Tensor& ids, const Tensor& words = {}, const Tensor& sentences = {}) const;
  void fields(Fields& f) override;
  HierarchicalAttention clone();

  WordEncoder words;
  AttentionPooling word_pooling;
  std::unique_ptr<Mixer> sentence_mixer;  ///< null at one level, as is the next one
  std::unique_ptr<AttentionPooling> sentence_pooling;
  Linear head;

 private:
  HierarchicalAttentionOptions options_;
};

}  // namespace vitrine::nn
