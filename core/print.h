// Prints tensors in NumPy's style.
#pragma once

#include <iosfwd>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// The values in nested brackets, followed by dtype, shape and device: "[[1. , 2.5],\n [3. , 4. ]]
/// float32[2, 2] on cpu". A tensor of more than 1,000 elements shows, and reads, only the first and
/// last three elements of each axis. `precision` is the maximum number of digits after the decimal
/// point. Unlike NumPy, bool prints as true and false.
std::string to_string(const Tensor& x, int precision = 4);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace vitrine
