// Drawing indices by their weights.
#pragma once

#include "core/random.h"

namespace vitrine {

/// `count` int64 draws per row of non-negative weights [..., V], with or without replacement; no
/// gradient. The same seed draws the same on any device. A row whose weights do not suffice, or
/// contain a number outside [0, 1e290], is an error (on a GPU told by what next waits).
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false,
                   Generator& generator = default_generator());

}  // namespace vitrine
