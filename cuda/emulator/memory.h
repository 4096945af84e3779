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

/// Starts (or stops) tracking which bytes of new memory were written. While it is on, the allocator
/// allocates the memory of every tensor separately.
void trace_device_memory(bool on = true);
bool traces_device_memory();
/// The memory size of the emulated GPUs, to test what happens without enough memory; at first the
/// size of the CPU's memory.
void set_device_memory_size(size_t bytes);
size_t device_memory_size();
size_t device_memory_in_use();

/// Returns 256-byte aligned memory, followed by some bytes that belong to no allocation; nullptr if
/// there is no memory left.
void* allocate_device_memory(size_t bytes);
/// Page-locked memory: kernels can access it too, and writes of the CPU to it are not tracked.
void* allocate_host_memory(size_t bytes);
void release_device_memory(void* data);
/// cudaMemcpy. A byte of `to` counts as written if the byte of `from` does; bytes from the host
/// always do.
void copy_device_memory(void* to, const void* from, size_t bytes);
/// cudaMemset.
void fill_device_memory(void* to, int value, size_t bytes);
/// All device memory counts as written, because a kernel that is not traced may have written it.
void device_memory_may_be_written();

/// The allocation that holds an address, or nullptr.
std::shared_ptr<Allocation> find_allocation(const void* address);
/// "4 bytes after an allocation of 400 bytes", or that no allocation is near.
std::string describe_nearest_allocation(const void* address);

}  // namespace vitrine::emulator
