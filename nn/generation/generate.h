// Generates the continuation of a text, token by token.
#pragma once

#include <vector>

#include "nn/generation/sampling.h"
#include "nn/models/language_model.h"

namespace vitrine::nn {

/// Continues `prompt` by at most `count` tokens, with a decoding state. When the state is full, the
/// older half of the context is dropped. The model runs in evaluation mode on this thread and is
/// not modified, and no tape records, so several threads may generate from one model at the same
/// time. Generation ends after a token in `stop`, which is part of the result. An empty prompt is
/// an error.
std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options = {}, const std::vector<int64_t>& stop = {});

}  // namespace vitrine::nn
