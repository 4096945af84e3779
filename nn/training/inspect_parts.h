// What the parts of a trained model do with a batch, for the report: the load of experts, and the
// steps of a universal Transformer.
#pragma once

#include "core/tensor.h"
#include "nn/models/gpt.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// Adds a table of the experts, if the model has some: for each layer the share of the tokens of
/// `ids` [B, T] that each expert takes, and the share that would find no place in training. Adds a
/// table of the steps until each position halts, if the model is universal: a row for each of the
/// first 8 sequences.
void inspect_parts(Gpt& model, const Tensor& ids, report::RunRecord& record);

}  // namespace vitrine::nn::training
