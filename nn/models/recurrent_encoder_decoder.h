// A recurrent encoder-decoder with attention, as for translation before the Transformer (Bahdanau,
// Cho, Bengio 2014; Luong, Pham, Manning 2015).
#pragma once

#include <memory>
#include <vector>

#include "nn/attention/luong.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/models/language_model.h"
#include "nn/recurrent/recurrent.h"

namespace vitrine::nn {

/// How a state of the decoder is compared with those of the encoder: by a score of LuongAttention,
/// or not at all. `none`: the decoder has one vector of a fixed size, the summary of the source.
enum class SourceScore { none, dot, general, concat, additive };
inline EnumNames<SourceScore> names_of(SourceScore) {
  return {"score of attention",
          {{"none", SourceScore::none},
           {"dot", SourceScore::dot},
           {"general", SourceScore::general},
           {"concat", SourceScore::concat},
           {"additive", SourceScore::additive}}};
}

/// What a step of the decoder reads besides a token. attentional: the vector h̃ of the step before
/// (input feeding, Luong). context: the context of the state before the step (Bahdanau).
enum class Feeding { none, attentional, context };
inline EnumNames<Feeding> names_of(Feeding) {
  return {"feeding",
          {{"none", Feeding::none}, {"attentional", Feeding::attentional}, {"context", Feeding::context}}};
}

/// Sizes and parts of a RecurrentEncoderDecoder.
struct RecurrentEncoderDecoderOptions {
  int64_t source_vocabulary = 65;  ///< number of source tokens
  int64_t vocabulary = 65;         ///< V: number of target tokens
  int64_t context = 64;            ///< the longest target in training; decoding has no limit
  int64_t width = 128;             ///< C, even: channels of embeddings and states
  double dropout = 0;              ///< in [0, 1): for the embeddings and for h̃
  Cell cell = Cell::gru;
  SourceScore score = SourceScore::additive;
  LuongView view = LuongView::global;
  int64_t half_window = 10;  ///< D, of the local views
  Feeding feeding = Feeding::none;
  bool coverage = false;  ///< see LuongOptions
  /// Run the encoder and each step of the decoder again in the backward pass, to save memory. With
  /// neither feeding nor coverage, all steps are one.
  bool recompute_steps = false;

  void list(OptionList& o);  ///< see nn/options.h
};

/// The encoder is a recurrence in both directions of C/2 channels each, and its states are the
/// memory. The summary [B, C] is the last forward and the last backward state of a row. The decoder
/// is a recurrence from h₀ = tanh(W·summary). At each step
///
///   h = cell(x, h₋₁),  c = Σ a_s·s with a = softmax(score(h, s)),  h̃ = tanh(Wc·[c; h])
///
/// where x is the embedding of the token, and what `feeding` adds to it. With Feeding::context, the
/// score reads h₋₁. The logits are a linear function of h̃. Without attention c is the summary.
class RecurrentEncoderDecoder : public Seq2SeqModel {
 public:
  /// Errors: options out of range; an odd width; a local view or coverage without attention;
  /// coverage with a score that has no tanh.
  explicit RecurrentEncoderDecoder(const RecurrentEncoderDecoderOptions& options);
  int64_t vocabulary() const override { return options_.vocabulary; }
  int64_t context() const override { return options_.context; }
  std::string kind() const override { return "recurrent_encoder_decoder"; }
  OptionValues settings() const override { return option_values(options_, {Role::result}); }

  Memory encode(const Tensor& source, const Tensor& lengths = {}) const override;
  /// What the decoder computes at each position.
  struct Decoded {
    Tensor inputs = {};        ///< x [B, T, C or 2·C]
    Tensor h = {}, read = {};  ///< h [B, T, C] and h̃ [B, T, C]
    Tensor context = {};       ///< c [B, T, C]
    Tensor weights = {};       ///< a [B, T, S], S = 1 without attention
    Tensor visible = {};       ///< bool, broadcast to the weights; undefined if all are visible
    /// Σ a over the earlier positions [B, T, S]; undefined without the option coverage
    Tensor coverage = {};
  };
  /// ids [B, T], T ≥ 1. `call` needs the memory as its source and source_lengths. A trace gets the
  /// weights of the attention as one head. Errors: no memory; a mask or padding, which a recurrence
  /// does not have.
  Decoded decode(const Tensor& ids, const StackCall& call) const;
  /// h̃ [B, T, C], with dropout.
  Tensor features(const Tensor& ids, const StackCall& call = {}) const override;
  Tensor logits(const Tensor& features) const override { return head.forward(features); }
  std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const override;
  void fields(Fields& f) override;
  RecurrentEncoderDecoder clone();
  const RecurrentEncoderDecoderOptions& options() const { return options_; }

  Embedding source_tokens, tokens;
  Dropout dropout;
  std::unique_ptr<Recurrent> encoder, decoder;
  Linear bridge;  ///< [C, C]: the summary → h₀
  LuongAttention attention;
  Linear head;  ///< [V, C]

 private:
  struct Carried;
  struct Step;
  Carried start(const Tensor& source, const Tensor& summary) const;
  Step step(const Tensor& x, const Tensor& source, const Tensor& visible, int64_t position,
            const Carried& carried) const;

  RecurrentEncoderDecoderOptions options_;
};

}  // namespace vitrine::nn
