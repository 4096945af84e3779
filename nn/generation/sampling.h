// Samples a token from logits.
#pragma once

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
  uint64_t seed = 0;  ///< one seed always gives the same text

  void list(OptionList& o);  ///< see nn/options.h
};

/// Samples the next token from logits [V]. A token with logit −∞ is never chosen. NaN is an error.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options, Generator& generator);

}  // namespace vitrine::nn
