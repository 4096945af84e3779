// Random indices, drawn by weights.
#pragma once

#include "core/random.h"

namespace vitrine {

/// `count` int64 draws per row of non-negative weights [..., V], with or without replacement; no
/// gradient. The same seed gives the same draws on any device. Errors: a row with too few weights
/// above 0, or with a number outside [0, 1e290]. On a GPU the next call that waits reports them.
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false,
                   Generator& generator = default_generator());

}  // namespace vitrine
