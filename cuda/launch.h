// How a kernel is launched, on a GPU by nvcc's <<<>>> and without one by the emulator
// (docs/cuda.md).
//
//   template <class T>
//   __global__ void scale_kernel(T* y, const T* x, T a, int64_t n) {
//     VITRINE_DYNAMIC_SHARED(T, buffer);  // the bytes asked for at the launch
//     for (int64_t i = first_index(); i < n; i += grid_stride()) y[i] = a * x[i];
//   }
//   VITRINE_LAUNCH((scale_kernel<float>), blocks_for(n), kThreads, 0, y, x, 2.0f, n);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/error.h"

#if !VITRINE_CUDA_KERNELS
#error \
    "This Vitrine was built without CUDA kernels: build it with -DVITRINE_CUDA=on (nvcc) or -DVITRINE_CUDA=emulated"
#elif VITRINE_CUDA_EMULATED
#include "cuda/emulator/runtime.h"
#define VITRINE_LAUNCH(kernel, grid, block, shared_bytes, ...)                            \
  do {                                                                                    \
    ::vitrine::emulator::launch(#kernel, VITRINE_TRACED, grid, block, shared_bytes,       \
                                ::vitrine::cuda::selected_stream(), kernel, __VA_ARGS__); \
    ::vitrine::cuda::check_launch(#kernel);                                               \
  } while (false)
#define VITRINE_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::vitrine::emulator::ThreadBlock::current().dynamic_shared())
#else
#include <cuda_runtime.h>
#define VITRINE_LAUNCH(kernel, grid, block, shared_bytes, ...)                              \
  do {                                                                                      \
    kernel<<<grid, block, shared_bytes, ::vitrine::cuda::selected_stream()>>>(__VA_ARGS__); \
    ::vitrine::cuda::check_launch(#kernel);                                                 \
  } while (false)
#define VITRINE_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char vitrine_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(vitrine_dynamic_shared)
#endif

namespace vitrine::cuda {

/// Throws an Error that names `what` and CUDA's reason, unless `result` is cudaSuccess.
void check_call(cudaError_t result, const char* what);
/// The same for a call that takes memory: false, and no Error, where there is none left.
bool has_taken(cudaError_t result, const char* what);
/// check_call for the launch of a kernel. With VITRINE_CUDA_SYNC=1 in the environment it waits for
/// the kernel, so that an error is told where it arose.
void check_launch(const char* kernel);

/// The index of the GPU that this thread has selected.
int current_device();
/// The current stream of that GPU: where a launch goes.
cudaStream_t selected_stream();

/// Lets a kernel take as much dynamic shared memory as the current device has: above 48 KiB it has
/// to be asked for. All of it, since what is allowed belongs to the kernel and not to one launch.
/// `asked` has a bit for each device, of 64 at most, where that was done.
void allow_shared(const void* kernel, std::atomic<uint64_t>& asked);
template <auto kKernel>
void allow_shared() {
  static std::atomic<uint64_t> asked{0};
  allow_shared(reinterpret_cast<const void*>(kKernel), asked);
}

/// Of the current device, times ten: 80 for 8.0.
int compute_capability();

/// Multiprocessors of the current device.
int multiprocessors();

/// Bytes of dynamic shared memory that a block may take on the current device, beside 1 KiB for a
/// kernel's `__shared__` variables.
size_t most_shared();
/// How many blocks a grid of the current device has at most along its last axis.
int64_t most_in_depth();

inline constexpr unsigned kThreads = 256;

/// The blocks of a grid of one axis, the only one that is long. `what` a block is for is named in
/// the error.
inline unsigned grid_of(int64_t blocks, const char* kernel, const char* what) {
  check(blocks <= INT32_MAX, "{}: {} {} are more than a grid of blocks holds", kernel, blocks, what);
  return static_cast<unsigned>(blocks);
}

/// Blocks of kThreads for n elements; few enough that each thread of a large grid takes several.
inline unsigned blocks_for(int64_t n) {
  constexpr int64_t kMost = 4096;
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMost ? kMost : blocks);
}

/// This thread's first element and the distance to its next, for grids of one axis.
__device__ inline int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t grid_stride() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace vitrine::cuda
