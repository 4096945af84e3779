// What Mamba and Mamba-2 have in common.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The biases from which softplus makes the initial steps Δ: `count` numbers from 0.001 to 0.1,
/// evenly spaced in their logarithms, float32.
Tensor initial_steps(int64_t count);

}  // namespace vitrine::nn
