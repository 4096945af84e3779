// The caching allocator. Memory taken from the system or from a GPU is split, reused and joined
// again, so that a steady training step makes no mmap, brk or cudaMalloc calls. Under
// AddressSanitizer, ThreadSanitizer and the emulator's inspection, each block is allocated
// separately, so that these tools see every tensor's bounds.
//
// A GPU's memory is ordered by streams (core/gpu/stream.h). The stream on which a tensor was
// allocated may reuse its memory at once, because the stream's earlier work is done by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/device.h"

namespace vitrine::memory {

/// Returns memory aligned to 64 bytes (512 on a GPU). If there is not enough, throws an Error that
/// gives the requested and the available memory.
void* allocate(size_t bytes, Device device = Device::cpu);
/// Takes back a block of allocate(); `bytes` and `device` are the same as there.
void release(void* block, size_t bytes, Device device = Device::cpu) noexcept;

/// Statistics of a device's memory in this process.
struct Statistics {
  size_t now = 0;            ///< bytes in live tensors
  size_t peak = 0;           ///< highest `now` since reset_peak()
  size_t reserved = 0;       ///< bytes held from the system or the GPU, live or cached
  uint64_t allocations = 0;  ///< number of allocate() calls so far
};

Statistics statistics(Device device = Device::cpu);
void reset_peak(Device device = Device::cpu);  ///< restarts the peak from the current use

/// Returns cached memory that no tensor uses to the system or the GPU. allocate() also does this
/// before it fails.
void release_cached(Device device = Device::cpu);

/// While a stream is held, memory that its tensors have released is not returned: a graph that was
/// captured on it still uses that memory.
void hold(const void* stream, Device device);
void let_go(const void* stream, Device device);
/// Whether a live tensor of that stream is in the block.
bool is_of(const void* stream, const void* block, Device device);

/// Whether the stream has no live tensors.
bool is_empty(const void* stream, Device device);

/// Counts allocated bytes by op while `on`. An op is charged for the memory allocated before each
/// of its kernels ran.
void track_ops(bool on);
/// The counted bytes, by the op's name.
std::map<std::string, size_t> by_op();
/// Charges the calling thread's uncharged allocations to `op` and returns their number of bytes.
/// Called by VITRINE_RUN.
size_t charge(const char* op);

/// Fills new memory of the CPU with 0xFF bytes (a NaN in every floating type), so that reads of
/// unwritten elements show. For tests.
void poison_new_memory(bool on);

}  // namespace vitrine::memory
