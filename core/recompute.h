// Gradient checkpointing: memory for time (Chen, Xu, Zhang, Guestrin: Training deep nets with
// sublinear memory cost, 2016).
#pragma once

#include <functional>

#include "core/tensor.h"

namespace vitrine {

/// Runs f without recording what happens inside; its backward runs f once more, recorded, and
/// differentiates that. Every tracked tensor that f reads, parameters included, becomes an input of
/// the one node that is recorded. The random numbers of the second run are those of the first;
/// overwriting a tensor that f reads, in between, is an error. Gradients have the bits of the plain
/// run, also where a tensor is read by several checkpoints or beside them.
Tensor recompute(const std::function<Tensor()>& f);

/// True inside the second run: what must happen once (a running average, say) is then left out.
bool recomputing();

}  // namespace vitrine
