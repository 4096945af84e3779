// Step `tensor_core` where Hopper's kernels have done a part.
#pragma once

#include "cuda/attention/steps.h"

namespace vitrine::cuda {

/// The forward and the backward of what `near` leaves (cuda/attention/laser_operands.h), of
/// everything where it is undefined. `h`: LASER's H, in which Hopper's kernels have written that of
/// their heads.
void tensor_core_attention(const AttentionForward& p, const Tensor& near);
void tensor_core_attention_backward(const AttentionBackward& p, const Tensor& near, const Tensor& h);

}  // namespace vitrine::cuda
