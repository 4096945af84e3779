// An op from outside the library: the activation that learns periodic functions (Ziyin, Hartwig,
// Ueda 2020).
#pragma once

#include <vitrine/core/tensor.h>

namespace outside {

/// x + sin²(frequency·x)/frequency, elementwise, for a floating x and frequency > 0. Saves x.
vitrine::Tensor snake(const vitrine::Tensor& x, double frequency = 1);

}  // namespace outside
