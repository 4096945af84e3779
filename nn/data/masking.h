// Masked language modeling: some tokens of a batch are hidden, and a model has to recover them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/batch.h"
#include "nn/text/tokenizer.h"

namespace vitrine::nn {

/// The shares of BERT. What is neither masked nor replaced stays, so that the model has to know
/// each chosen token, not only those at a mask.
struct MaskingOptions {
  double share = 0.15;    ///< of the ordinary tokens of a row that are chosen, in (0, 1]
  double masked = 0.8;    ///< of the chosen tokens that become `mask`
  double replaced = 0.1;  ///< of the chosen tokens that become a random ordinary token
  std::string mask = "[MASK]";
};

/// Chooses tokens of a batch and hides them (Devlin et al. 2019, section 3.1). Of a row with n
/// ordinary tokens, round(share·n) are chosen, at least one. Special tokens, among them padding,
/// are never chosen. The choice depends on the seed and the number of the batch alone: each epoch
/// hides other tokens, and a resumed run hides the same.
class TokenMasking {
 public:
  /// Errors: shares out of range; no token `mask`; no ordinary token.
  TokenMasking(const Tokenizer& tokenizer, uint64_t seed, MaskingOptions options = {});
  /// The first tensor of the batch is ids [B, T], with padding by a special token. They are
  /// replaced, and two tensors are added: the places of the N chosen tokens in [0, B·T), and their
  /// ids, which are the targets. The items of the batch are the chosen tokens. N differs from batch
  /// to batch. Errors: an id outside the vocabulary, or a batch without ordinary tokens.
  Batch operator()(Batch batch, int64_t index) const;

 private:
  MaskingOptions options_;
  uint64_t seed_;
  int64_t mask_ = 0;
  std::vector<bool> special_;      ///< by id
  std::vector<int64_t> ordinary_;  ///< ids
};

}  // namespace vitrine::nn
