// GPUs: selection, memory, and errors. A build with CUDA links neither the driver nor large
// libraries, so it also runs without a GPU, as a CPU library.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "core/gpu/capture.h"
#include "core/gpu/gpu.h"
#include "core/kernel_macros.h"
#include "cuda/runtime/device_error.h"

namespace vitrine::cuda {
namespace {

bool says(const char* variable, const char* value) {
  const char* text = std::getenv(variable);
  return text != nullptr && std::string(text) == value;
}

bool is_synchronous() {
  static const bool on = says("VITRINE_CUDA_SYNC", "1");
  return on;
}

struct Gpus {
  int count = 0;
  std::string absence;  // why there is none
};

/// Determined once. A build by nvcc also works without a GPU, and prints this the first time that a
/// GPU is requested.
const Gpus& gpus() {
  static const Gpus found = [] {
    Gpus g;
    const cudaError_t result = cudaGetDeviceCount(&g.count);
    if (result == cudaSuccess && g.count > 0) return g;
    cudaGetLastError();  // reported here; the next launch must not
    g = {0, result == cudaSuccess ? "none is installed" : cudaGetErrorString(result)};
    fmt::print(stderr, "vitrine: there is no GPU that CUDA can use here ({}): what runs, runs on the CPU\n",
               g.absence);
    return g;
  }();
  return found;
}

/// Enables direct copies from other GPUs to the selected GPU, if the machine supports them.
void reach_peers(int device) {
  static std::array<std::once_flag, 128> reached;
  std::call_once(reached[static_cast<size_t>(device)], [device] {
    for (int peer = 0; peer < gpus().count; ++peer) {
      int possible = 0;
      if (peer == device) continue;
      if (cudaDeviceCanAccessPeer(&possible, device, peer) == cudaSuccess && possible != 0)
        cudaDeviceEnablePeerAccess(peer, 0);
      cudaGetLastError();  // copies through the CPU's memory also work
    }
  });
}

thread_local int selected = -1;

/// Of the current device.
int attribute(cudaDeviceAttr which, const char* what) {
  int value = 0;
  check_call(cudaDeviceGetAttribute(&value, which, current_device()), what);
  return value;
}

/// Bytes of a block's shared memory: `__shared__` variables and dynamic memory together.
size_t shared_of_block() {
  return static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, "shared memory"));
}

}  // namespace

void check_call(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // reported here; the next launch must not
  const std::string op = detail::KernelScope::innermost();
  fail("CUDA: {}{}: {}{}", op.empty() ? "" : op + ": ", what, cudaGetErrorString(result),
       is_synchronous()
           ? ""
           : " (noticed here, perhaps of an earlier kernel: run with VITRINE_CUDA_SYNC=1 to learn which)");
}

bool has_taken(cudaError_t result, const char* what) {
  if (result == cudaErrorMemoryAllocation) return cudaGetLastError(), false;
  return check_call(result, what), true;
}

void check_launch(const char* kernel) {
  check_call(cudaGetLastError(), kernel);
  if (!is_synchronous() || detail::capturing()) return;
  check_call(cudaStreamSynchronize(selected_stream()),
             kernel);  // of a device CUDA allows none while another thread captures
  tell_device_error();
}

void select(Device device) {
  // Other code of this thread may have selected another GPU since then.
  if (int current = -1;
      device.index == selected && cudaGetDevice(&current) == cudaSuccess && current == selected)
    return;
  const Gpus& found = gpus();
  check(found.count > 0, "a tensor on {} was asked for, but there is no GPU that CUDA can use here ({})",
        to_string(device), found.absence);
  check(device.index >= 0 && device.index < found.count,
        "a tensor on {} was asked for, but there are {} GPUs", to_string(device), found.count);
  check_call(cudaSetDevice(device.index), "cudaSetDevice");
  check(compute_capability() >= 80, "{} has compute capability {}.{}, wanted 8.0 (Ampere) or more",
        to_string(device), compute_capability() / 10, compute_capability() % 10);
  reach_peers(device.index);
  selected = device.index;
}

int current_device() {
  int device = 0;
  check_call(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

cudaStream_t selected_stream() {
  return static_cast<cudaStream_t>(current_stream({DeviceKind::cuda, static_cast<int8_t>(selected)}));
}

int compute_capability() {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, "compute capability") +
         attribute(cudaDevAttrComputeCapabilityMinor, "compute capability");
}

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount, "multiprocessors"); }

size_t most_shared() { return shared_of_block() - 1024; }

int64_t most_in_depth() { return attribute(cudaDevAttrMaxGridDimZ, "blocks of a grid"); }

size_t allow_shared(const void* kernel, SharedPermission& permission) {
  const uint64_t bit = uint64_t{1} << current_device() % 64;
  const bool is_new = (permission.devices & bit) == 0;
  if (is_new) {
    cudaFuncAttributes attributes{};
    check_call(cudaFuncGetAttributes(&attributes, kernel), "a kernel's shared memory");
    permission.variables = attributes.sharedSizeBytes;
  }
  const size_t most = shared_of_block() - permission.variables;
  if (is_new) {
    check_call(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most)),
        "dynamic shared memory");
    permission.devices |= bit;
  }
  return most;
}

void* take_memory(size_t bytes, Device device) {
  select(device);
  void* data = nullptr;
  return has_taken(cudaMalloc(&data, bytes), "cudaMalloc") ? data : nullptr;
}

void give_memory(void* data) noexcept { cudaFree(data); }

bool caches_memory() {
  static const bool on = !says("VITRINE_CUDA_CACHE", "0");
#if VITRINE_CUDA_EMULATED
  return on && !emulator::traces_device_memory();
#else
  return on;
#endif
}

std::string describe_free_memory(Device device) {
  select(device);
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();  // or the next launch would report it
    return "";
  }
  return fmt::format("; {} of the GPU's {} MiB are free", free >> 20, total >> 20);
}

}  // namespace vitrine::cuda

int vitrine::gpu_count() { return cuda::gpus().count; }
