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
};

/// A model that gives the logits of the next token at each position of a sequence of tokens. The
/// decoder of an encoder-decoder model is one, too: it gets its memory as the `source` and the
/// `source_lengths` of each call.
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

}  // namespace vitrine::nn
