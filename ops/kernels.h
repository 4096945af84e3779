// Every kernel of the operations, declared once for CPU and CUDA (core/kernel.h). The op checks and
// allocates; the kernel only computes. CPU kernels are in the op's file or, where tuned, under ops/cpu/; CUDA
// twins in cuda/ under the same stem.
#pragma once

#include "core/kernel.h"

namespace vitrine {}  // namespace vitrine
