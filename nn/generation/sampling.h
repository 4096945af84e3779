// Drawing a token from logits.
#pragma once

#include "core/random.h"
#include "core/tensor.h"
#include "nn/options.h"

namespace vitrine::nn {

/// How the next token is drawn; values out of range are errors.
struct SamplingOptions {
  /// ≥ 0: logits are divided by it; 0: the most likely token (of equals the first)
  double temperature = 1;
  int64_t top_k = 0;  ///< only the k most likely; 0: all
  /// Of the tokens only the fewest most likely ones that together have this much, in (0, 1]
  double top_p = 1;
  uint64_t seed = 0;  ///< the same seed draws the same text

  void list(OptionList& o);  ///< see nn/options.h
};

/// The next token for logits [V]; −∞ is never chosen. NaN is an error.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options, Generator& generator);

}  // namespace vitrine::nn
