// The pointer-generator: a recurrent encoder-decoder that copies words of the source (See, Liu,
// Manning 2017).
#pragma once

#include <memory>

#include "nn/models/recurrent_encoder_decoder.h"

namespace vitrine::nn {

/// Sizes and parts of a PointerGenerator.
struct PointerGeneratorOptions {
  /// The model that is extended. The source and the target share its vocabulary of V tokens.
  RecurrentEncoderDecoderOptions base = {
      .score = SourceScore::additive, .feeding = Feeding::attentional, .coverage = true};
  int64_t unseen = 8;   ///< X: the most words of a source that the vocabulary does not have
  int64_t unknown = 0;  ///< what the base reads in place of such a word, in [0, V)

  void list(OptionList& o);  ///< see nn/options.h
};

/// The vocabulary is extended by the words of a source that it does not have: these are the tokens
/// V, …, V + X − 1 of that source alone (nn/text/extended_vocabulary.h). At each step
///
///   g = σ(w·[c; h; x] + b),  P(word) = g·P_V(word) + (1 − g)·Σ a_s over the places s of the word
///
/// where c, h, x and the weights a are those of the base, and P_V = softmax of its logits. The
/// features are log P, from a probability of at least 10⁻³⁰, so that generation and beam search may
/// choose what to copy.
class PointerGenerator : public Seq2SeqModel {
 public:
  /// Errors: those of the base; a base without attention; vocabularies of unequal size; options out
  /// of range.
  explicit PointerGenerator(const PointerGeneratorOptions& options);
  int64_t vocabulary() const override { return options_.base.vocabulary + options_.unseen; }
  int64_t context() const override { return options_.base.context; }
  std::string kind() const override { return "pointer_generator"; }
  OptionValues settings() const override { return option_values(options_, {Role::result}); }

  /// The memory also has the tokens of the source, which are in [0, V + X).
  Memory encode(const Tensor& source, const Tensor& lengths = {}) const override;
  struct Written {
    Tensor log_probabilities;  ///< [B, T, V + X]
    Tensor generates;          ///< g [B, T]
    /// Σ_s min(a_s, coverage_s) [B, T]: the loss of attention to places that earlier steps have
    /// read; undefined without coverage
    Tensor coverage_loss;
  };
  Written write(const Tensor& ids, const StackCall& call) const;
  Tensor features(const Tensor& ids, const StackCall& call = {}) const override {
    return write(ids, call).log_probabilities;
  }
  Tensor logits(const Tensor& features) const override { return features; }
  /// The mean of −log P(wanted) + weight·coverage_loss over the targets that are not −100, for
  /// training: source [B, S], given [B, T] and wanted [B, T].
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& given, const Tensor& wanted,
              double coverage_weight) const;
  std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const override {
    return base.make_state(batch);
  }
  void fields(Fields& f) override;
  PointerGenerator clone();
  const PointerGeneratorOptions& options() const { return options_; }

  RecurrentEncoderDecoder base;
  Linear gate;  ///< [1, channels of c, h and x]

 private:
  Tensor known(const Tensor& ids) const;

  PointerGeneratorOptions options_;
};

}  // namespace vitrine::nn
