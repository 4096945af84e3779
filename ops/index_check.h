// Indices given by the user, checked and brought into one form.
#pragma once

#include "ops/kernels.h"

namespace vitrine {

/// The indices as contiguous int64, negative ones counted from the end where the rule has them; one
/// out of range is an error that names it and its position. On a GPU it is told when the CPU next
/// waits for that (item, a copy, synchronize), and counts as `except`, or 0, until then.
Tensor checked_index(const Tensor& index, const IndexRule& rule);

}  // namespace vitrine
