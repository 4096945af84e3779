// Order statistics.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// The sorted values, and their positions in x along the axis.
struct Sorted {
  Tensor values;
  Tensor indices;  ///< int64
};

/// Stable sort along an axis; NaN sorts last in either direction. Gradients go back to the values'
/// positions in x.
Sorted sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The k largest (or smallest) along an axis, in order; of equal values the earlier comes first.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

}  // namespace vitrine
