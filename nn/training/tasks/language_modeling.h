// The task of predicting the next token of a text with a language model.
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

/// Batches of `batch` windows of the model's context: random windows of `training` in an order that
/// `seed` determines, and all windows of `validation`. A batch is ids and targets, each [B, T]; the
/// targets are the ids shifted by one position. Errors: ids outside [0, V); a split that is not
/// longer than the context. The task refers to the model.
Task language_modeling(LanguageModel& model, Tokens training, Tokens validation, int64_t batch,
                       uint64_t seed);

/// The mean cross-entropy of the model on a batch of ids and targets. In training the auxiliary
/// losses of experts and of a universal Transformer are added. `traces`, if not null, receives
/// those of the blocks.
Tensor next_token_loss(const LanguageModel& model, const std::vector<Tensor>& batch,
                       std::vector<MixerTrace>* traces = nullptr);

/// Adds to the record the statistics of every head on one batch of language_modeling, and the
/// weights of its first row as maps. `label` gives the text of a token.
void inspect_attention(LanguageModel& model, const Batch& batch,
                       const std::function<std::string(int64_t)>& label, report::RunRecord& record);

}  // namespace vitrine::nn::training
