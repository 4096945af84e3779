// What generation, beam search and language modelling ask of a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/options.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// Logits of the next token, for each position of a sequence of tokens.
class LanguageModel : public Module {
 public:
  virtual int64_t vocabulary() const = 0;  ///< V: ids are in [0, V)
  virtual std::string kind() const = 0;    ///< "gpt": what a checkpoint calls it
  /// What decides its results, by name: the options that a checkpoint has and a resumed run
  /// compares.
  virtual OptionValues settings() const = 0;
  /// Numbers that a forward keeps for each token, at least: for the memory that a batch needs.
  virtual int64_t values_per_token() const { return vocabulary(); }
  virtual int64_t context() const = 0;  ///< the longest sequence that it is trained on
  /// ids [B, T] → features [B, T, C] before the output layer. Ids outside [0, V), and more
  /// positions than the state or the context holds, are errors.
  virtual Tensor features(const Tensor& ids, const StackCall& call = {}) const = 0;
  virtual Tensor logits(const Tensor& features) const = 0;  ///< [..., C] → [..., V]
  /// ids [B, T] → logits [B, T, V].
  Tensor forward(const Tensor& ids, const StackCall& call = {}) const { return logits(features(ids, call)); }
  /// The state before the first token. Its capacity is the number of tokens that it can hold.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const = 0;
};

}  // namespace vitrine::nn
