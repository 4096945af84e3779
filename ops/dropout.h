// Dropout.
#pragma once

#include "core/random.h"

namespace vitrine {

/// Each element is 0 with probability p, else x/(1 − p). Element i is dropped if its Philox uniform
/// number is below p. Saves the generator's position instead of the mask. Srivastava et al. 2014.
Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator());

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
/// x times the mask of `draw`.
Tensor dropout(const Tensor& x, double p, Draw draw);
}  // namespace define

}  // namespace vitrine
