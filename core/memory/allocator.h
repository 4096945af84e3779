// The caching allocator: memory once taken from the system or from a GPU is split, reused and
// joined again, so that a steady training step makes no mmap, no brk and no cudaMalloc. Under
// AddressSanitizer and ThreadSanitizer each block is taken by itself, so that they see every
// tensor's bounds; so it is under the emulator's inspection.
//
// A GPU's memory is ordered by streams (core/gpu/stream.h): what a tensor leaves is used again at
// once, by the stream on which it was allocated, whose earlier work is done by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/device.h"

namespace vitrine::memory {

/// 64-byte aligned bytes (512 on a GPU); throws an Error that says what was asked for and what is
/// there when there is no more.
void* allocate(size_t bytes, Device device = Device::cpu);
/// Takes back a block of allocate(); `bytes` and `device` as there.
void release(void* block, size_t bytes, Device device = Device::cpu) noexcept;

/// Of a device's memory in this process.
struct Statistics {
  size_t now = 0;            ///< bytes in live tensors
  size_t peak = 0;           ///< highest `now` since reset_peak()
  size_t reserved = 0;       ///< bytes held from the system or the GPU, live or cached
  uint64_t allocations = 0;  ///< number of allocate() calls so far
};

Statistics statistics(Device device = Device::cpu);
void reset_peak(Device device = Device::cpu);  ///< the peak starts again from what is in use now

/// Gives cached memory that no tensor uses back to the system or the GPU. allocate() does so by
/// itself before it gives up.
void release_cached(Device device = Device::cpu);

/// While a stream is held, the memory that its tensors have left is not given back: a graph that
/// was captured there goes on using it.
void hold(const void* stream, Device device);
void let_go(const void* stream, Device device);
/// Whether a tensor of that stream lives in the block.
bool is_of(const void* stream, const void* block, Device device);

/// Whether no tensor of that stream lives.
bool is_empty(const void* stream, Device device);

/// Bytes allocated by op, counted while `on`. An op is charged what was allocated before each of
/// its kernels ran.
void track_ops(bool on);
/// What was counted, by the op's name.
std::map<std::string, size_t> by_op();
/// Charges the calling thread's uncharged allocations to `op`, and says how many bytes they are.
/// Called by VITRINE_RUN.
size_t charge(const char* op);

/// Fills new memory of the CPU with 0xFF bytes (a NaN in every floating type), so that reads of
/// unwritten elements show. For tests.
void poison_new_memory(bool on);

}  // namespace vitrine::memory
