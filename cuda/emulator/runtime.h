// In place of <cuda_runtime.h>: the part of CUDA C++ that the kernels of cuda/ use, for a C++
// compiler.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/emulator/atomics.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/intrinsics.h"
#include "cuda/emulator/limits.h"
#include "cuda/emulator/memory.h"
#include "cuda/emulator/streams.h"
#include "cuda/emulator/vector_types.h"
#include "cuda/emulator/warp.h"

// Whether the kernels of a file are traced: VITRINE_TRACE_OPTIONS define it as true, the library's
// own build as true or false. A file without the definition is from a user, who may expect reports
// of races.
#ifndef VITRINE_TRACED
#define VITRINE_TRACED ::vitrine::emulator::report_untraced(__FILE__)
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__
#define __grid_constant__
// All threads of a block run on one thread of the CPU, so static thread_local variables belong to
// the block.
#define __shared__ static thread_local

#define threadIdx (::vitrine::emulator::thread_index())
#define blockIdx (::vitrine::emulator::block_index())
#define blockDim (::vitrine::emulator::block_size())
#define gridDim (::vitrine::emulator::grid_size())
#define __syncthreads() (::vitrine::emulator::ThreadBlock::current().synchronize({__FILE__, __LINE__}))
#define __syncthreads_count(predicate) \
  (::vitrine::emulator::ThreadBlock::current().synchronize_and_count((predicate) != 0, {__FILE__, __LINE__}))
#define __syncthreads_or(predicate) (__syncthreads_count(predicate) != 0 ? 1 : 0)
#define __syncthreads_and(predicate) (__syncthreads_count((predicate) == 0) == 0 ? 1 : 0)

inline size_t __cvta_generic_to_shared(const void* shared) {
  return vitrine::emulator::ThreadBlock::current().shared_address(shared);
}

using dim3 = vitrine::emulator::Size3;

namespace vitrine::emulator {

/// Marks the code of a kernel: accesses are reported while this object exists.
class InKernel {
 public:
  InKernel() { ThreadBlock::current().enter_kernel(true); }
  ~InKernel() { ThreadBlock::current().enter_kernel(false); }
};

template <class... Parameters, class... Arguments>
void launch(const char* kernel_name, bool traced, dim3 grid, dim3 block, size_t shared_bytes, Stream* stream,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  launch_grid({without_parentheses(kernel_name), grid, block, shared_bytes, traced,
               reinterpret_cast<const void*>(kernel)},
              stream, [=]() VITRINE_UNTRACED {
                const InKernel scope;
                kernel(arguments...);
              });
}

}  // namespace vitrine::emulator

#include "cuda/emulator/host.h"
