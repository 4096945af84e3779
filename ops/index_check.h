// Indices given by the user, checked and brought into one form.
#pragma once

#include <optional>

#include "core/kernel.h"

namespace vitrine {

/// What an op takes as an index.
struct IndexRule {
  const char *op, *argument;           ///< for messages; literals
  int64_t limit;                       ///< indices are below it
  bool negative = false;               ///< −limit … −1 count from the end
  std::optional<int64_t> except = {};  ///< allowed beside, and kept as it is
};

/// The indices as contiguous int64, negative ones counted from the end; one out of range is an error that names
/// it and its position. On a GPU it is told when the CPU next waits for that (item, a copy, synchronize), and counts as
/// `except`, or 0, until then.
Tensor checked_index(const Tensor& index, const IndexRule& rule);

/// What checked_index says, for a y of its form.
VITRINE_KERNEL(check_index, Tensor& y, const Tensor& index, const IndexRule& rule);

}  // namespace vitrine
