// Continuing a text by a model, token by token.
#pragma once

#include <vector>

#include "nn/generation/sampling.h"
#include "nn/models/gpt.h"

namespace vitrine::nn {

/// Continues `prompt` by `count` tokens, decoding with the cache; beyond the context the oldest tokens are forgotten. The
/// model runs in evaluation mode on this thread, and nothing is recorded or written into it: several threads may generate
/// from one model at a time. An empty prompt is an error.
std::vector<int64_t> generate(Gpt& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options = {});

}  // namespace vitrine::nn
