// Continuing a text by a model, token by token.
#pragma once

#include <vector>

#include "nn/generation/sampling.h"
#include "nn/models/language_model.h"

namespace vitrine::nn {

/// Continues `prompt` by at most `count` tokens, with a decoding state; where the state is full,
/// the older half of the context is forgotten. The model runs in evaluation mode on this thread,
/// and nothing is recorded or written into it: several threads may generate from one model at a
/// time. It ends after a token of `stop`, which the result includes. An empty prompt is an error.
std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options = {}, const std::vector<int64_t>& stop = {});

}  // namespace vitrine::nn
