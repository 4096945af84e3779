// Beam search: the most likely continuations of one text or several.
#pragma once

#include <vector>

#include "core/names.h"
#include "nn/generation/stop.h"
#include "nn/models/language_model.h"
#include "nn/options.h"

namespace vitrine::nn {

/// What the log-probability of a continuation of n tokens is divided by; p is the power.
/// `power`: nᵖ. `gnmt`: ((5 + n)/6)ᵖ, Wu et al. 2016, equation 14.
enum class LengthPenalty { power, gnmt };
inline EnumNames<LengthPenalty> names_of(LengthPenalty) {
  return {"length penalty", {{"power", LengthPenalty::power}, {"gnmt", LengthPenalty::gnmt}}};
}

struct BeamOptions {
  int64_t beam = 4;  ///< ≥ 1: the continuations of a prompt that are kept at each step
  /// ≥ 0. 0: the most likely continuation; 1, with LengthPenalty::power: the one with the highest
  /// mean log-probability. A larger power favors longer continuations
  double length_power = 1;
  LengthPenalty length_penalty = LengthPenalty::power;

  void list(OptionList& o);  ///< see nn/options.h
};

/// The arguments of beam search besides the prompts and the options.
struct BeamCall {
  Stop stop = {};
  /// What an encoder-decoder model has encoded, a row for each prompt
  Memory memory = {};
};

/// A continuation that beam search has found.
struct BeamText {
  std::vector<int64_t> tokens;  ///< the prompt and the continuation, with the token that ended it
  double log_probability;       ///< of the continuation, given the prompt
  double score;                 ///< the log-probability divided by the length penalty
  bool ended;                   ///< by call.stop; else by `count`
};

/// The best continuations of each prompt by at most `count` tokens, at most options.beam of them,
/// the highest score first. Each step sorts all continuations of the beams by one token: the
/// highest log-probability first, then the lower beam, then the lower token. Those among the first
/// `beam` that call.stop ends are results, and the first `beam` others go on. After `count` tokens
/// these are results too. A prompt leaves the batch as soon as nothing that goes on can be among
/// its results, so that this changes no result. Everything else is as in generate_batch. Errors:
/// options out of range; `count` below 1; those of generate_batch. Graves 2012; Wu et al. 2016.
std::vector<std::vector<BeamText>> beam_search(LanguageModel& model,
                                               const std::vector<std::vector<int64_t>>& prompts,
                                               int64_t count, const BeamOptions& options = {},
                                               const BeamCall& call = {});

}  // namespace vitrine::nn
