// What the attention heads do on one batch, for the record of a run.
#pragma once

#include <string>
#include <vector>

#include "core/tape.h"
#include "nn/attention/attention.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// Statistics of every head in a pass that `tape` recorded up to `loss`, and the weights of the
/// batch's first row as maps. There is a trace for each attention; they are the record's next
/// layers. The labels name the queries and keys of that row. The tape is kept, so that a second
/// call can show attentions with other labels.
void inspect_attention(Tape& tape, const Tensor& loss, const std::vector<MixerTrace>& traces,
                       const std::vector<std::string>& query_labels,
                       const std::vector<std::string>& key_labels, report::RunRecord& record);

}  // namespace vitrine::nn::training
