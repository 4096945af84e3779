// Rotary position embedding for given angles. nn/attention/positions.h computes the angles of
// positions.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// Rotates the first 2n channels of x [.., D] in pairs: (l, h) = (x_i, x_n+i), or (x_2i, x_2i+1) if
/// `interleaved`, becomes (l·cos_i − h·sin_i, h·cos_i + l·sin_i). The other channels do not change.
/// cosine and sine broadcast to [.., n]; if one of them has a gradient, simpler ops run. The result
/// has x's dtype, is computed in the wide dtype, and has its axes in the memory order of x's.
/// Backward: the rotation by the negative angles. Su et al. 2021.
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved = false);

namespace define {  // the same function in simpler ops, for tests and higher derivatives
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved);
}  // namespace define

}  // namespace vitrine
