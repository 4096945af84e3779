// The gradients of parameters as a list that is scaled in place.
#pragma once

#include <vector>

#include "core/parameter.h"

namespace vitrine::optim {

/// Whether each tensor shares memory with an earlier one of the list that does not, or with itself
/// (an expanded view does). Strides with gaps count as all of the memory from the first to the last
/// element.
std::vector<bool> share_memory(const std::vector<Tensor>& xs);

/// The gradients that the parameters have; a parameter that is listed twice counts once. A gradient
/// that shares memory with another is replaced by a copy of its own first, so that each may be
/// written in place.
std::vector<Tensor> separate_gradients(const std::vector<Parameter>& parameters);

}  // namespace vitrine::optim
