// Whether kernels of Hopper's own instructions can run.
#include "cuda/instructions/wgmma.h"

namespace vitrine::cuda {
namespace {

#if !VITRINE_CUDA_EMULATED
/// Like all kernels with `wgmma`, empty where it is compiled for anything but sm_90a; elsewhere it
/// takes shared memory.
__global__ void probe() {
#if VITRINE_HAS_WGMMA
  [[maybe_unused]] __shared__ int memory;
  *static_cast<volatile int*>(&memory) = 1;
#endif
}
#endif

bool has_code() {
#if VITRINE_CUDA_EMULATED
  return true;
#else
  static const bool found = [] {
    cudaFuncAttributes kernel{};  // stays 0 without any code for this GPU
    if (cudaFuncGetAttributes(&kernel, probe) != cudaSuccess) cudaGetLastError();
    const bool has = kernel.sharedSizeBytes >= sizeof(int);
    if (!has)
      fmt::print(stderr,
                 "vitrine: this GPU could multiply 16-bit matrices by `wgmma`, for which the library has no "
                 "code: it was not compiled for the architecture 90a (CMAKE_CUDA_ARCHITECTURES)\n");
    return has;
  }();
  return found;
#endif
}

}  // namespace

bool has_wgmma() { return compute_capability() / 10 == 9 && has_code(); }

}  // namespace vitrine::cuda
