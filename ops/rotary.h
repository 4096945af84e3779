// Rotary position embedding, given the angles. nn/attention/positions.h has those of positions.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// Turns the first 2n channels of x [.., D] in pairs: (l, h) = (x_i, x_n+i), or (x_2i, x_2i+1)
/// where `interleaved`, becomes (l·cos_i − h·sin_i, h·cos_i + l·sin_i); the other channels stay.
/// cosine and sine broadcast to [.., n]; where one has a gradient, simpler ops compute it. The
/// result has x's dtype, is computed in its wide one, and its axes lie in memory in the order of
/// x's. Backward: the turn by the negative angles. Su et al. 2021.
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved = false);

namespace define {  // the same function in simpler ops: what tests and higher derivatives use
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved);
}  // namespace define

}  // namespace vitrine
