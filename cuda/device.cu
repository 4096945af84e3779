// Memory of a GPU, and errors. A build with CUDA links neither the driver nor large libraries, so it also runs, as a CPU
// library, where there is no GPU.
#include <cstdlib>
#include <string>

#include "core/kernels.h"
#include "core/storage.h"
#include "cuda/launch.h"

namespace vitrine::cuda {
namespace {

bool is_synchronous() {
  static const bool on = [] {
    const char* text = std::getenv("VITRINE_CUDA_SYNC");
    return text != nullptr && std::string(text) == "1";
  }();
  return on;
}

void select(Device device) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  check(result == cudaSuccess && count > 0,
        "a tensor on {} was asked for, but there is no GPU that CUDA can use here ({})", to_string(device),
        result == cudaSuccess ? "none is installed" : cudaGetErrorString(result));
  check(device.index >= 0 && device.index < count, "a tensor on {} was asked for, but there are {} GPUs",
        to_string(device), count);
  check_call(cudaSetDevice(device.index), "cudaSetDevice");
}

}  // namespace

void check_call(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  fail("CUDA: {}: {}{}", what, cudaGetErrorString(result),
       is_synchronous()
           ? ""
           : " (noticed here, perhaps of an earlier kernel: run with VITRINE_CUDA_SYNC=1 to learn which)");
}

void check_launch(const char* kernel) {
  check_call(cudaGetLastError(), kernel);
  if (is_synchronous()) check_call(cudaDeviceSynchronize(), kernel);
}

void* allocate(size_t bytes, Device device) {
  select(device);
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is told below, and must not be told again by the next launch
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail("{}: out of memory: {} bytes were asked for, {} of {} are free", to_string(device), bytes, free,
         total);
  }
  check_call(result, "cudaMalloc");
  return data;
}

void release(void* data, size_t, Device) noexcept { cudaFree(data); }

void transfer(Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape() && y.dtype() == x.dtype(),
        "transfer: {} to {}, wanted equal shapes and dtypes", describe(x), describe(y));
  check(y.is_contiguous() && x.is_contiguous(), "transfer: wanted contiguous tensors");
  if (x.numel() == 0) return;
  check_call(
      cudaMemcpy(y.raw(), x.raw(), static_cast<size_t>(x.numel() * x.element_size()), cudaMemcpyDefault),
      "transfer");
}

}  // namespace vitrine::cuda
