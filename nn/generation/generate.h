// Generates the continuation of one text or several, token by token.
#pragma once

#include <functional>
#include <vector>

#include "nn/generation/sampling.h"
#include "nn/generation/stop.h"
#include "nn/models/language_model.h"

namespace vitrine::nn {

/// The arguments of generation besides the prompts and the sampling.
struct GenerateCall {
  Stop stop = {};
  /// What an encoder-decoder model has encoded, a row for each prompt
  Memory memory = {};
  /// Called with each token as soon as it is chosen, and with the index of its prompt
  std::function<void(int64_t prompt, int64_t token)> on_token = {};
};

/// Continues `prompt` by at most `count` tokens, with a decoding state. When the state is full, the
/// older half of the context is dropped. The model runs in evaluation mode on this thread and is
/// not modified, and no tape records, so several threads may generate from one model at the same
/// time. Generation ends after the token that call.stop names, which is part of the result. Errors:
/// an empty prompt; options out of range; a memory that does not fit.
std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options = {}, const GenerateCall& call = {});

/// Continues several prompts at once, so that each step reads the weights once for all of them. The
/// prompts may have different lengths: shorter ones are padded on the left, and no query sees the
/// padding. Result i is that of generate with prompt i and the seed `options.seed` + i, except that
/// sums may be rounded differently. A prompt that has ended leaves the batch. Errors: those of
/// generate; different lengths with a mixer that accepts no mask (a recurrence).
std::vector<std::vector<int64_t>> generate_batch(LanguageModel& model,
                                                 std::vector<std::vector<int64_t>> prompts, int64_t count,
                                                 const SamplingOptions& options = {},
                                                 const GenerateCall& call = {});

}  // namespace vitrine::nn
