// An elementwise op from outside the library, defined by one formula (Barron 2021).
#pragma once

#include <vitrine/core/tensor.h>

namespace outside {

/// (x + √(x² + b))/2, elementwise, for a floating x and b > 0. Saves x and y.
vitrine::Tensor squareplus(const vitrine::Tensor& x, double b = 4);

}  // namespace outside
