// Checks and conversion of indices that the user passes.
#pragma once

#include "ops/kernels.h"

namespace vitrine {

/// The indices as contiguous int64, counted from the end if negative and if the rule permits it. An
/// index out of range is an error that names the index and its position. On a GPU this error is
/// reported when the CPU next waits for the GPU (item, a copy, synchronize); until then the index
/// counts as `except`, or 0.
Tensor checked_index(const Tensor& index, const IndexRule& rule);

}  // namespace vitrine
