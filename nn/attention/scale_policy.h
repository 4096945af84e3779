// Which factor the scores of an attention get, by its setting and the number of keys.
#pragma once

#include <string>

#include "nn/attention/attention.h"

namespace vitrine::nn {

/// What multiplies q·k, or the cosine, where n keys are seen; standard and constant scales do not depend on n. Fewer than 2
/// count as 2: one key has the weight 1 whatever its score is multiplied by, and log 1 = 0 has no best scale.
double score_scale(const AttentionSetting& setting, int64_t head_size, double n);
/// The same for n = 0, 1, … up to at least `last`: float64 [N], not to be written to.
Tensor score_scales(const AttentionSetting& setting, int64_t head_size, int64_t last, Device device);
/// The n of a setting for all queries: its own, or half the context.
double common_keys(const AttentionSetting& setting, int64_t context);
/// "the scores are multiplied by 0.2584: gradient-optimal for n = 32 keys".
std::string describe_scale(const AttentionSetting& setting, int64_t head_size, int64_t context);

}  // namespace vitrine::nn
