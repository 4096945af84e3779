// LoRA: the linear layers of a trained model get low-rank changes, and only these are trained.
//
//   freeze(model);
//   add_lora(model, "blocks.*.attention.**", {.rank = 8});
//   … train …
//   merge_lora(model);
#pragma once

#include <string>

#include "nn/layers/freeze.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// Adds a LowRank to each linear layer whose path the pattern names (path_matches): its output is
/// x·Wᵀ + b + (alpha/r)·x·Aᵀ·Bᵀ. Returns the number of layers. The parameters are "….lora.a" and
/// "….lora.b", with the dtype and device of the weight. Errors: no such layer, a layer that has a
/// LowRank already, a weight that another layer shares, a rank beyond the sizes of a weight. A
/// checkpoint is loaded after the same call. clone() copies the changes, too. Hu et al. 2021.
int64_t add_lora(Module& module, const std::string& pattern, const LoraOptions& options = {});
/// W + (alpha/r)·B·A, differentiable; W itself if the layer has no LowRank.
Tensor merged_weight(const Linear& layer);
/// Gives each layer its merged weight and removes the LowRank. Outputs change by rounding only.
/// Returns the number of layers; none is an error.
int64_t merge_lora(Module& module);

}  // namespace vitrine::nn
