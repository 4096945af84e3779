// Sampling text from a model, token by token.
#pragma once

#include <vector>

#include "core/random.h"
#include "nn/gpt.h"

namespace vitrine::nn {

/// How the next token is drawn; values out of range are errors.
struct SamplingOptions {
  double temperature = 1;  ///< ≥ 0: logits are divided by it; 0: the most likely token (of equals the first)
  int64_t top_k = 0;       ///< only the k most likely; 0: all
  double top_p = 1;   ///< of those only the fewest most likely ones that together have this much, in (0, 1]
  uint64_t seed = 0;  ///< the same seed draws the same text
};

/// Continues `prompt` by `count` tokens, decoding with the cache; beyond the context the oldest tokens are forgotten. The
/// model runs in evaluation mode on this thread, and nothing is recorded or written into it: several threads may generate
/// from one model at a time. An empty prompt is an error.
std::vector<int64_t> generate(Gpt& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options = {});

/// The next token for logits [V]; −∞ is never chosen. NaN is an error.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options, Generator& generator);

}  // namespace vitrine::nn
