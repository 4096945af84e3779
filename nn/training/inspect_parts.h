// What the parts of a trained model do with a batch, for the report: the load of experts, and the
// steps of a universal Transformer.
#pragma once

#include "core/tensor.h"
#include "nn/models/gpt.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// Adds a table of the experts, if the model has some: for each layer the share of the choices of
/// the tokens `ids` [B, T] that each expert gets, and the share that a full expert would refuse in
/// training. Adds a table of the steps until each position halts, if the model is universal: a row
/// for each of the first 8 sequences.
void inspect_parts(Gpt& model, const Tensor& ids, report::RunRecord& record);

}  // namespace vitrine::nn::training
