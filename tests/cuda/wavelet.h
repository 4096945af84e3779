// An op that this library does not have: an elementwise formula from outside.
#pragma once

#include "core/tensor.h"

namespace vitrine::test {

/// y = x·e^(−x²/2) with a kernel for the device.
Tensor wavelet(const Tensor& x);

}  // namespace vitrine::test
