// BiDAF: where in a text is the answer to a question (Seo et al. 2017)?
#pragma once

#include <memory>
#include <vector>

#include "nn/attention/alignment.h"
#include "nn/layers/linear.h"
#include "nn/models/word_encoder.h"

namespace vitrine::nn {

/// Sizes and parts of a BiDaf.
struct BiDafOptions {
  WordEncoderOptions words = {.mixer = "lstm", .word_deviation = 1};
  int64_t layers = 2;  ///< mixers of the modelling layer

  void list(OptionList& o);  ///< see nn/options.h
};

/// Finds the answer to a question as a span of the context, in four layers.
///
/// - Encoding: context and question are read by the same WordEncoder. The paper also has a
///   convolution over the characters of each word, and highway layers.
/// - Flow: each word of the context reads the question, and the question reads the context:
///   G = [h; ũ; h∘ũ; h∘h̃] (AttentionFlow).
/// - Modelling: M, which is W·G with C channels and `layers` mixers.
/// - Pointers: a linear layer on [G; M] scores each word as the first one of the answer, and one on
///   [G; M₂] as the last one, where M₂ is M after another mixer.
class BiDaf : public Module {
 public:
  explicit BiDaf(const BiDafOptions& options);

  struct Result {
    Tensor first, last;      ///< [B, T]: logits of the first and the last word; −∞ for padding
    Tensor query_weights;    ///< [B, T, J]: what each word of the context reads of the question
    Tensor context_weights;  ///< [B, T]: what the question reads of the context
  };
  /// context [B, T] and question [B, J] are word ids. Their rows have so many words as the lengths
  /// say (int64 [B]; undefined: all), and the rest is padding, which changes nothing.
  Result forward(const Tensor& context, const Tensor& question, const Tensor& context_lengths = {},
                 const Tensor& question_lengths = {}) const;
  void fields(Fields& f) override;
  BiDaf clone();

  WordEncoder words;
  AttentionFlow flow;
  Linear projection;  ///< [C, 4·C]
  std::vector<std::unique_ptr<Mixer>> modelling;
  std::unique_ptr<Mixer> end_mixer;
  Linear first, last;  ///< [1, 5·C]

 private:
  BiDafOptions options_;
};

}  // namespace vitrine::nn
