// Launching of kernels: with nvcc's <<<>>> on a GPU, or with the emulator without a GPU
// (docs/cuda.md).
//
//   template <class T>
//   __global__ void scale_kernel(T* y, const T* x, T a, int64_t n) {
//     VITRINE_DYNAMIC_SHARED(T, buffer);  // the bytes that the launch states
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
/// The same for a call that allocates memory: returns false, without an Error, if there is no
/// memory left.
bool has_taken(cudaError_t result, const char* what);
/// check_call for the launch of a kernel. With VITRINE_CUDA_SYNC=1 in the environment it waits for
/// the kernel, so that an error is reported at the launch that caused it.
void check_launch(const char* kernel);

/// The index of the GPU that this thread has selected.
int current_device();
/// The current stream of that GPU. Kernels are launched on this stream.
cudaStream_t selected_stream();

/// What allow_shared remembers of a kernel.
struct SharedPermission {
  std::atomic<uint64_t> devices{0};  ///< one bit per device, 64 at most: whether it gave permission
  std::atomic<size_t> variables{0};  ///< bytes of the kernel's `__shared__` variables
};
/// Allows a kernel all dynamic shared memory of the current device, and returns its bytes: all that
/// the kernel's `__shared__` variables leave. Above 48 KiB CUDA requires a permission. The
/// permission is for all of the memory, because it belongs to the kernel, not to one launch.
size_t allow_shared(const void* kernel, SharedPermission& permission);
template <auto kKernel>
size_t allow_shared() {
  static SharedPermission permission;
  return allow_shared(reinterpret_cast<const void*>(kKernel), permission);
}

/// The compute capability of the current device, times ten: 80 for 8.0.
int compute_capability();

/// The number of multiprocessors of the current device.
int multiprocessors();

/// Bytes of dynamic shared memory that a block may use on the current device, if the `__shared__`
/// variables of its kernel take 1 KiB at most. For other kernels, allow_shared knows.
size_t most_shared();
/// The largest number of blocks along the last axis of a grid on the current device.
int64_t most_in_depth();

inline constexpr unsigned kThreads = 256;

/// Checks the number of blocks of a one-dimensional grid (only this axis of a grid can be long).
/// `what` names what the blocks are for, in the error.
inline unsigned grid_of(int64_t blocks, const char* kernel, const char* what) {
  check(blocks <= INT32_MAX, "{}: {} {} are more than a grid of blocks holds", kernel, blocks, what);
  return static_cast<unsigned>(blocks);
}

/// Blocks of kThreads for n elements, 4096 at most: each thread of a large grid processes several
/// elements.
inline unsigned blocks_for(int64_t n) {
  constexpr int64_t kMost = 4096;
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMost ? kMost : blocks);
}

/// This thread's first element, and the distance to its next element, for one-dimensional grids.
__device__ inline int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t grid_stride() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace vitrine::cuda
