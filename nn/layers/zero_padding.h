// Zeros in place of padding.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// Which of `time` positions are not padding: bool [B, time], true for the first lengths[b]
/// positions of row b. `lengths` is int64 [B]; undefined: no position is padding, and
/// the result is undefined.
Tensor visible_positions(const Tensor& lengths, int64_t time);

/// x [B, T, …] with 0 in place of what follows the first lengths[b] values of row b. `lengths` is
/// int64 [B]; undefined: every row is full, and the result is x. Values of the padding, NaN too,
/// have no effect, and their gradients are 0. Errors: another shape or dtype of the lengths.
Tensor zero_padding(const Tensor& x, const Tensor& lengths);

}  // namespace vitrine::nn
