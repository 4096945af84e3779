#include "cuda/emulator/limits.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "core/error.h"

namespace vitrine::emulator {
namespace {

std::atomic<size_t> shared_memory = size_t{227} << 10;
std::atomic<int> capability = 90;
std::atomic<unsigned> depth = 65535;
std::atomic<uint64_t> passes = 300'000'000;

/// What kernels were allowed.
struct Allowed {
  std::mutex mutex;
  std::map<const void*, size_t> bytes;
};
Allowed& allowed() {
  static Allowed* const instance = new Allowed;
  return *instance;
}

size_t allowed_bytes(const void* kernel) {
  const std::lock_guard lock(allowed().mutex);
  const auto found = allowed().bytes.find(kernel);
  return found == allowed().bytes.end() ? size_t{48} << 10 : found->second;
}

}  // namespace

cudaError_t allow_dynamic_shared(const void* kernel, size_t bytes) {
  if (bytes > shared_memory) return cudaErrorInvalidValue;
  const std::lock_guard lock(allowed().mutex);
  allowed().bytes[kernel] = bytes;
  return cudaSuccess;
}

void set_shared_memory_size(size_t bytes) { shared_memory = bytes; }
size_t shared_memory_size() { return shared_memory; }
void set_most_passes(uint64_t most) { passes = most; }
uint64_t most_passes() { return passes; }
void set_most_blocks_in_depth(unsigned blocks) { depth = blocks; }
unsigned most_blocks_in_depth() { return depth; }
void set_compute_capability(int c) { capability = c; }
int compute_capability() { return capability; }

void check_launch(const Launch& launch) {
  const Size3 grid = launch.grid, block = launch.block;
  check(block.count() >= 1 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && block.count() <= 1024,
        "kernel {}: blocks of {} × {} × {} threads, wanted 1 to 1024 threads, and 64 at most along z",
        launch.kernel, block.x, block.y, block.z);
  check(grid.count() >= 1 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= depth,
        "kernel {}: {} × {} × {} blocks, wanted at least one, and at most 2³¹ − 1 × 65535 × {}",
        launch.kernel, grid.x, grid.y, grid.z, depth.load());
  check(launch.shared_bytes <= shared_memory, "kernel {}: {} bytes of shared memory, a block has {}",
        launch.kernel, launch.shared_bytes, shared_memory.load());
  const size_t most = allowed_bytes(launch.function);
  check(launch.shared_bytes <= most,
        "kernel {}: {} bytes of dynamic shared memory, but it may take {}: above 48 KiB they have to be "
        "asked for (cudaFuncSetAttribute, cudaFuncAttributeMaxDynamicSharedMemorySize)",
        launch.kernel, launch.shared_bytes, most);
}

}  // namespace vitrine::emulator
