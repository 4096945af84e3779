// Order statistics and sampling by index.
#pragma once

#include "core/random.h"

namespace vitrine {

/// Values in order, and where in x they stood along the axis.
struct Sorted {
  Tensor values;
  Tensor indices;  ///< int64
};

/// Stable sort along an axis; NaN sorts last in either direction. Gradients go back to where values came
/// from.
Sorted sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The k largest (or smallest) along an axis, in order; of equals the earlier comes first.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);
/// `count` int64 draws per row of non-negative weights [..., V], with or without replacement; no gradient. A row whose
/// weights do not suffice, or contain a negative or non-finite number, is an error.
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false,
                   Generator& generator = default_generator());

}  // namespace vitrine
