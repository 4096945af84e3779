// The block of memory that a tensor and its views share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"

namespace vitrine {

/// Bytes on a device, with a count of the writes into them. A storage lives as long as a tensor or
/// a Saved refers to it.
class Storage {
 public:
  /// Uninitialized memory from the device's allocator.
  Storage(size_t bytes, Device device);
  /// Memory with another owner, such as a mapped file; `keep_alive` is released together with the
  /// storage. A chain of storages that keep each other alive is freed without recursion.
  Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> keep_alive);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// The number of in-place writes. A value saved for a backward remembers this number and so
  /// detects that it was overwritten.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void written_by(const char* op) {
    last_writer_.store(op, std::memory_order_relaxed);
    version_.fetch_add(1, std::memory_order_relaxed);
  }
  /// The op that wrote last; "" if nothing was written after creation.
  const char* last_writer() const { return last_writer_.load(std::memory_order_relaxed); }

  /// The serial of the last tape that recorded a tensor of this storage as an output. Leaves and
  /// watched tensors may belong to several tapes at a time, so each of those tapes keeps its own
  /// list of them (Tape::tracks_memory_of).
  uint64_t tracked_by() const { return tracked_by_.load(std::memory_order_relaxed); }
  void set_tracked_by(uint64_t tape) { tracked_by_.store(tape, std::memory_order_relaxed); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Device device_;
  std::shared_ptr<void> keep_alive_;  // set: the memory is not ours to release
  bool owned_ = true;
  std::atomic<uint32_t> version_{0};
  std::atomic<const char*> last_writer_{""};
  std::atomic<uint64_t> tracked_by_{0};
};

}  // namespace vitrine
