// The most likely span of a text, from the scores of its first and its last word.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The span [i, j] with the largest first[i] + last[j] among i ≤ j, which is the most likely one if
/// both are logits: first and last [B, T] → int64 [B, 2], the positions i and j. A span has at most
/// `longest` positions (0: T). Of equal spans the one that begins first counts, then the one that
/// ends first. Scores of −∞ and NaN count as −∞, and a row of these alone gives 0, 0. Computed on
/// the CPU. Errors: other shapes, and no positions.
Tensor best_spans(const Tensor& first, const Tensor& last, int64_t longest = 0);

}  // namespace vitrine::nn
