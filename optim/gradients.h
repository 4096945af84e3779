// The gradients of parameters, as a list for scaling in place.
#pragma once

#include <vector>

#include "core/parameter.h"

namespace vitrine::optim {

/// For each tensor, whether it shares memory with an earlier tensor of the list that itself shares
/// none, or with itself (as an expanded view does). Strides with gaps count as all memory from the
/// first to the last element.
std::vector<bool> share_memory(const std::vector<Tensor>& xs);

/// The gradients of the parameters that have one; a parameter that is listed twice counts once. A
/// gradient that shares memory with another is first replaced by a copy, so that each may be
/// written in place.
std::vector<Tensor> separate_gradients(const std::vector<Parameter>& parameters);

}  // namespace vitrine::optim
