// CUDA's own 16-bit types, __half and __nv_bfloat16, for kernels that want them. Vitrine's are
// those of core/float16.h, which lie in memory alike.
#pragma once

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/half.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
