// The caching CPU allocator: memory once taken from the system is split, reused and joined again, so that a steady
// training step makes no mmap and no brk. Under AddressSanitizer and ThreadSanitizer it passes straight through to
// malloc, so that they see every tensor's bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace vitrine::memory {

/// 64-byte aligned bytes; throws an Error that says what was asked for when the system has no more.
void* allocate(size_t bytes);
/// Takes back a block of allocate(); `bytes` as asked for there.
void release(void* block, size_t bytes) noexcept;

/// Of the CPU's memory in this process.
struct Statistics {
  size_t now = 0;            ///< bytes in live tensors
  size_t peak = 0;           ///< highest `now` since reset_peak()
  size_t reserved = 0;       ///< bytes held from the system, live or cached
  uint64_t allocations = 0;  ///< number of allocate() calls so far
};

Statistics statistics();
void reset_peak();  ///< the peak starts again from what is in use now

/// Gives cached memory that no tensor uses back to the system. allocate() does so by itself before it gives up.
void release_cached();

/// Bytes allocated by op, counted while `on`. An op is charged what was allocated before each of its kernels ran.
void track_ops(bool on);
/// What was counted, by the op's name.
std::map<std::string, size_t> by_op();
/// Charges the calling thread's uncharged allocations to `op`, and says how many bytes they are. Called by VITRINE_RUN.
size_t charge(const char* op);

/// Fills new memory with 0xFF bytes (a NaN in every floating type), so that reads of unwritten elements show. For tests.
void poison_new_memory(bool on);

}  // namespace vitrine::memory
