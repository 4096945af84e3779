// Predicting the next token of a text with a language model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/models/language_model.h"
#include "nn/report/run.h"
#include "nn/text/tokens.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// `batch` windows of the model's context at a time: of `training` in an order that `seed` chooses,
/// of `validation` all. Batches are the ids and the ids one further, [B, T] each. Splits with ids
/// outside [0, V), or no more than the context, are errors. Refers to the model.
Task language_modeling(LanguageModel& model, Tokens training, Tokens validation, int64_t batch,
                       uint64_t seed);

/// Statistics of every head on one batch of language_modeling, and the weights of its first row as
/// maps, with `label` naming tokens.
void inspect_attention(LanguageModel& model, const Batch& batch,
                       const std::function<std::string(int64_t)>& label, report::RunRecord& record);

}  // namespace vitrine::nn::training
