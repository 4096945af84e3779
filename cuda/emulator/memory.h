// The emulated GPU's memory: which bytes belong to an allocation, and, when kernels are traced,
// which of them were written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vitrine::emulator {

class Allocation {
 public:
  Allocation(char* data, size_t size);
  bool holds(const void* address) const { return static_cast<size_t>(at(address)) < size_; }
  ptrdiff_t at(const void* address) const { return static_cast<const char*>(address) - data_; }
  size_t size() const { return size_; }

  void write(size_t offset, size_t size);
  void write_all() { all_written_ = true; }
  bool is_written(size_t offset) const {
    return all_written_ || written_[offset].load(std::memory_order_relaxed);
  }

 private:
  char* data_;
  size_t size_;
  std::atomic<bool> all_written_;
  std::unique_ptr<std::atomic<bool>[]> written_;  // by byte
};

/// From now on new memory knows, or knows no more, which of its bytes were written, and the
/// allocator takes every tensor's by itself.
void trace_device_memory(bool on = true);
bool traces_device_memory();
/// The emulated GPUs' size, for trying what happens without enough of it; at first all that the CPU
/// has.
void set_device_memory_size(size_t bytes);
size_t device_memory_size();
size_t device_memory_in_use();

/// 256-byte aligned, with some bytes after it that belong to nobody; nullptr when there is no more.
void* allocate_device_memory(size_t bytes);
/// Page-locked: kernels reach it as well, and what the CPU has written there is not known.
void* allocate_host_memory(size_t bytes);
void release_device_memory(void* data);
/// cudaMemcpy: `to` is as written as `from`, and all of it when that is the host's.
void copy_device_memory(void* to, const void* from, size_t bytes);
/// cudaMemset.
void fill_device_memory(void* to, int value, size_t bytes);
/// A kernel that is not traced may have written anything.
void device_memory_may_be_written();

/// The allocation that holds an address, or nullptr.
std::shared_ptr<Allocation> find_allocation(const void* address);
/// "4 bytes after an allocation of 400 bytes", or that no allocation is near.
std::string describe_nearest_allocation(const void* address);

}  // namespace vitrine::emulator
