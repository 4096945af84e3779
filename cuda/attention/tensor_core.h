// Step `tensor_core` for the part that Hopper's kernels have not computed.
#pragma once

#include "cuda/attention/steps.h"

namespace vitrine::cuda {

/// Forward and backward of the tiles that `near` leaves to this step
/// (cuda/attention/laser_operands.h); of all tiles if `near` is undefined. `h` is LASER's H, where
/// Hopper's kernels have written H of their heads.
void tensor_core_attention(const AttentionForward& p, const Tensor& near);
void tensor_core_attention_backward(const AttentionBackward& p, const Tensor& near, const Tensor& h);

}  // namespace vitrine::cuda
