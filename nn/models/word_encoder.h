// Words in context: what models that read texts of words have in common.
#pragma once

#include <memory>
#include <string>

#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/options.h"
#include "nn/transformer/mixers.h"

namespace vitrine::nn {

/// Sizes of a WordEncoder and of the layers after it. Every size is at least 1.
struct WordEncoderOptions {
  int64_t vocabulary = 1000;  ///< V: number of words
  int64_t width = 64;         ///< C; for a recurrence even, because each direction has half of it
  int64_t heads = 4;          ///< of an attention
  int64_t context = 64;       ///< the longest text, for attentions that depend on it
  /// The mixer of each layer, which sees the whole text. A recurrence runs in both directions; an
  /// attention without positions sees a text without order
  std::string mixer = "gru";
  /// The standard deviation of the initial word vectors, above 0. A model that compares words
  /// learns much sooner from distinct vectors (1). One that reads opinions from few texts
  /// generalizes better from short ones (docs/models.md)
  double word_deviation = 0.125;
  double dropout = 0;  ///< in [0, 1): of what each layer reads
  /// Saves memory: the backward runs each mixer again, so its activations are not kept
  bool recompute_mixers = false;

  void list(OptionList& o);  ///< see nn/options.h
};

/// A mixer of these sizes that sees the whole text.
std::unique_ptr<Mixer> make_mixer(const WordEncoderOptions& options);
/// What the mixer makes of x [B, T, C], whose rows have lengths[b] words; computed again in the
/// backward if the options say so.
Tensor mix(const WordEncoderOptions& options, Mixer& mixer, const Tensor& x, const Tensor& lengths);

/// An embedding of words, dropout, and a mixer that puts each word into its context.
class WordEncoder : public Module {
 public:
  explicit WordEncoder(const WordEncoderOptions& options);
  /// ids [B, T] → [B, T, C]. Row b has lengths[b] words (int64 [B]; undefined: T), and what follows
  /// them is padding, which does not change the rows' own vectors.
  Tensor forward(const Tensor& ids, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  WordEncoder clone();

  Embedding words;
  Dropout dropout;
  std::unique_ptr<Mixer> mixer;

 private:
  WordEncoderOptions options_;
};

}  // namespace vitrine::nn
