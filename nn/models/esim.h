// ESIM: does one sentence follow from another one (Chen et al. 2017)?
#pragma once

#include <memory>

#include "nn/layers/linear.h"
#include "nn/models/word_encoder.h"

namespace vitrine::nn {

/// Sizes and parts of an Esim.
struct EsimOptions {
  WordEncoderOptions words = {.mixer = "lstm", .word_deviation = 1};
  int64_t classes = 3;  ///< entailment, neutral, contradiction

  void list(OptionList& o);  ///< see nn/options.h
};

/// Compares two sentences a and b in four layers.
///
/// - Encoding: each sentence is read by the same WordEncoder.
/// - Alignment: each word reads the words of the other sentence that fit it, in both directions
///   (soft_alignment), and becomes [a; ã; a − ã; a∘ã].
/// - Composition: relu(W·…) back to C channels, and a second mixer.
/// - Pooling: mean and maximum over the words of both sentences, and tanh(V·…) before the logits.
class Esim : public Module {
 public:
  explicit Esim(const EsimOptions& options);

  struct Result {
    Tensor logits;                ///< [B, classes]
    Tensor a_weights, b_weights;  ///< the alignment, [B, Ta, Tb] over b and [B, Tb, Ta] over a
  };
  /// a [B, Ta] and b [B, Tb] are word ids. Their rows have a_lengths[b] and b_lengths[b] words
  /// (int64 [B]; undefined: all), and the rest is padding, which changes nothing.
  Result forward(const Tensor& a, const Tensor& b, const Tensor& a_lengths = {},
                 const Tensor& b_lengths = {}) const;
  void fields(Fields& f) override;
  Esim clone();

  WordEncoder words;
  Linear projection;  ///< [C, 4·C]
  std::unique_ptr<Mixer> composition;
  Linear hidden;  ///< [C, 4·C]
  Linear head;

 private:
  Tensor summary(const Tensor& aligned, const Tensor& lengths) const;
  EsimOptions options_;
};

}  // namespace vitrine::nn
