// Gradient checkpointing, which trades time for memory (Chen, Xu, Zhang, Guestrin: Training deep
// nets with sublinear memory cost, 2016).
#pragma once

#include <functional>

#include "core/tensor.h"

namespace vitrine {

/// Runs f without recording its ops. The backward runs f a second time, recorded, and
/// differentiates this second run. One node is recorded; its inputs are all tracked tensors that f
/// reads, including parameters. The second run draws the same random numbers as the first.
/// Overwriting a tensor that f reads between the two runs is an error. Gradients have the same bits
/// as without checkpointing, even if several checkpoints, or ops outside checkpoints, read the same
/// tensor.
Tensor recompute(const std::function<Tensor()>& f);

/// True inside the second run. Skip there what must happen only once, such as updating a running
/// average.
bool recomputing();

}  // namespace vitrine
