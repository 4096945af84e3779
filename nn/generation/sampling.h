// Samples a token from logits.
#pragma once

#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "nn/options.h"

namespace vitrine::nn {

/// How the next token is sampled. Values out of range are errors.
struct SamplingOptions {
  /// ≥ 0. The logits are divided by it. 0: the most likely token, and the first of equals
  double temperature = 1;
  int64_t top_k = 0;  ///< sample from the k most likely tokens only; 0: from all
  /// In (0, 1]: sample from the smallest set of most likely tokens whose probabilities sum to at
  /// least this
  double top_p = 1;
  /// In [0, 1]: sample only from tokens with at least this share of the highest probability. Nguyen
  /// et al. 2024
  double min_p = 0;
  /// > 0. The logit of each token that the text already contains is divided by it if it is
  /// positive, and else multiplied by it; 1: no change. Keskar et al. 2019
  double repetition_penalty = 1;
  uint64_t seed = 0;  ///< one seed always gives the same text

  void list(OptionList& o);  ///< see nn/options.h
};

/// Samples the token after `text` from logits [V]. The options apply in this order: repetition
/// penalty, temperature, top-k, top-p, min-p. Only the penalty reads the text. A token with logit
/// −∞ is never chosen. NaN is an error.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options, Generator& generator,
                     const std::vector<int64_t>& text = {});

}  // namespace vitrine::nn
