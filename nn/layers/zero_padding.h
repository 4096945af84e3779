// Zeros in place of padding.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// x [B, T, …] with 0 in place of what follows the first lengths[b] values of row b; lengths int64
/// [B]. Values of the padding, NaN too, have no effect, and their gradients are 0.
Tensor zero_padding(const Tensor& x, const Tensor& lengths);

}  // namespace vitrine::nn
