// The interface of language models: what generation, beam search and language modelling use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/options.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// What a decoder reads with cross-attention at each step: the output of an encoder, which runs
/// once for each source sequence. Undefined for a model without cross-attention.
struct Memory {
  Tensor source = {};  ///< [B, S, C]
  /// int64 [B]: row b has lengths[b] valid positions; undefined: all are valid
  Tensor lengths = {};
  Tensor ids = {};  ///< int64 [B, S]: the tokens of the source, if the model copies them
};

/// A model that gives the logits of the next token at each position of a sequence of tokens. The
/// decoder of an encoder-decoder model is one, too: it gets its memory as the `source`, the
/// `source_lengths` and the `source_ids` of each call.
class LanguageModel : public Module {
 public:
  virtual int64_t vocabulary() const = 0;  ///< V: ids are in [0, V)
  virtual std::string kind() const = 0;    ///< "gpt": the name of this kind in a checkpoint
  /// The options that determine the results, by name. A checkpoint stores them, and a resumed run
  /// compares them.
  virtual OptionValues settings() const = 0;
  /// A lower bound of the numbers that a training step stores per token, to estimate the memory
  /// that a batch needs.
  virtual int64_t values_per_token() const { return vocabulary(); }
  virtual int64_t context() const = 0;  ///< the longest sequence in training
  /// ids [B, T] → features [B, T, C], the input of the output layer. Errors: ids outside [0, V),
  /// and more positions than the state or the context can hold.
  virtual Tensor features(const Tensor& ids, const StackCall& call = {}) const = 0;
  virtual Tensor logits(const Tensor& features) const = 0;  ///< [..., C] → [..., V]
  /// ids [B, T] → logits [B, T, V].
  Tensor forward(const Tensor& ids, const StackCall& call = {}) const { return logits(features(ids, call)); }
  /// The state before the first token. Its capacity is the maximum number of tokens.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const = 0;
};

/// A sequence-to-sequence model: it reads a source and writes a target, of which it is a
/// LanguageModel.
///
///   const Memory memory = model.encode(source, lengths);      // once
///   beam_search(model, prompts, count, {}, {.memory = memory});   // step by step
class Seq2SeqModel : public LanguageModel {
 public:
  /// source [B, S] → what the decoder reads. Row b has lengths[b] tokens, int64 [B], and what
  /// follows them is padding, which changes nothing; undefined: S. Errors: ids outside the source's
  /// vocabulary, a source that is too long.
  virtual Memory encode(const Tensor& source, const Tensor& lengths = {}) const = 0;
  /// Teacher forcing, for training: source [B, S] and target [B, T] → the logits [B, T, V] of the
  /// token after each target position, given the target up to there.
  Tensor forward(const Tensor& source, const Tensor& lengths, const Tensor& target) const {
    const Memory memory = encode(source, lengths);
    return forward(target,
                   {.source = memory.source, .source_lengths = memory.lengths, .source_ids = memory.ids});
  }
  using LanguageModel::forward;
};

}  // namespace vitrine::nn
