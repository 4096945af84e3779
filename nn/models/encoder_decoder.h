// An encoder-decoder Transformer, as for translation (Vaswani et al. 2017), with interchangeable
// parts.
#pragma once

#include <memory>
#include <string>

#include "nn/layers/embedding.h"
#include "nn/models/language_model.h"
#include "nn/options.h"

namespace vitrine::nn {

/// Sizes and parts of an EncoderDecoder. Every size is at least 1, except where 0 has a meaning of
/// its own.
struct EncoderDecoderOptions {
  int64_t source_vocabulary = 65;  ///< number of source tokens
  int64_t vocabulary = 65;         ///< V: number of target tokens
  int64_t source_context = 64;     ///< the longest source
  int64_t context = 64;            ///< the longest target
  int64_t width = 128;             ///< C, a multiple of heads
  int64_t encoder_layers = 3, decoder_layers = 3;
  int64_t heads = 4;   ///< H
  int64_t hidden = 0;  ///< width inside the feed-forward parts; 0 = 4·width
  double dropout = 0;  ///< in [0, 1): for the embeddings and for what blocks add
  /// The mixer of both stacks; see parse_mixer. Cross-attention has its parts, except those that
  /// need positions
  std::string mixer = "standard";
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer;
  Residual residual = Residual::pre;
  Bias bias = Bias::yes;
  /// Saves memory: the backward computes each block again, so its activations are not kept
  bool recompute_blocks = false;

  void list(OptionList& o);  ///< see nn/options.h
};

/// The encoder reads the source, every position of it at each. The decoder is a LanguageModel of
/// the target: a position sees the target up to itself and, by cross-attention, the encoded source.
///
/// A token becomes √C times its embedding, plus a sinusoid unless the mixer depends on positions
/// itself. The output layer shares the weights of the target's embedding. Weights of linear layers
/// start as xavier_uniform, except with Residual::deepnet, and embeddings as N(0, 1/C).
class EncoderDecoder : public Seq2SeqModel {
 public:
  explicit EncoderDecoder(const EncoderDecoderOptions& options);  ///< out of range: an error
  int64_t vocabulary() const override { return options_.vocabulary; }
  int64_t context() const override { return options_.context; }
  std::string kind() const override { return "encoder_decoder"; }
  OptionValues settings() const override { return option_values(options_, {Role::result}); }

  Memory encode(const Tensor& source, const Tensor& lengths = {}) const override;
  /// `call` needs the memory as its source and source_lengths; see LanguageModel.
  Tensor features(const Tensor& ids, const StackCall& call = {}) const override;
  Tensor logits(const Tensor& features) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const override;
  void fields(Fields& f) override;
  EncoderDecoder clone();
  const EncoderDecoderOptions& options() const { return options_; }

  Embedding source_tokens, tokens;  ///< `tokens` is also the output layer
  Dropout dropout;
  Encoder encoder;
  Decoder decoder;

 private:
  Tensor embed(const Embedding& table, const Tensor& ids, int64_t past, const Tensor& padding) const;

  EncoderDecoderOptions options_;
  bool adds_positions_;
};

}  // namespace vitrine::nn
