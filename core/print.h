// Printing tensors as NumPy would.
#pragma once

#include <iosfwd>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// The values in nested brackets, followed by dtype, shape and device: "[[1. , 2.5],\n [3. , 4. ]]
/// float32[2, 2] on cpu". Above 1,000 elements each axis shows its first and last three, and no
/// others are read. `precision`: most digits after the point. Unlike NumPy, bool prints as C++'s
/// true and false.
std::string to_string(const Tensor& x, int precision = 4);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace vitrine
