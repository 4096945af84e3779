// CUDA's own 16-bit types, __half and __nv_bfloat16, for kernels that use them. Vitrine's types are
// in core/float16.h; they have the same layout in memory.
#pragma once

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/half.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
