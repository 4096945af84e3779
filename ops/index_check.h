// Indices given by the user, checked and brought into one form.
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor.h"

namespace vitrine {

/// What an op takes as an index.
struct IndexRule {
  std::string_view op, argument;       ///< for messages
  int64_t limit;                       ///< indices are below it
  bool negative = false;               ///< −limit … −1 count from the end
  std::optional<int64_t> except = {};  ///< allowed beside, and kept as it is
};

/// The indices as contiguous int64, negative ones counted from the end; one out of range is an error that names
/// it and its position.
Tensor checked_index(const Tensor& index, const IndexRule& rule);

}  // namespace vitrine
