// Statistics of the attention heads on one batch, for the record of a run.
#pragma once

#include <string>
#include <vector>

#include "core/tape.h"
#include "nn/attention/attention.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// Adds to the record: the statistics of every head in a forward pass that `tape` has recorded up
/// to `loss`, and the weights of the first row of the batch as maps. `traces` has one trace per
/// attention; they become the next layers of the record. The labels name the queries and keys of
/// that row. The tape is kept, so that another call can add attentions with other labels.
void inspect_attention(Tape& tape, const Tensor& loss, const std::vector<MixerTrace>& traces,
                       const std::vector<std::string>& query_labels,
                       const std::vector<std::string>& key_labels, report::RunRecord& record);

}  // namespace vitrine::nn::training
