// Streams: queues of a GPU's work. The work of one stream runs in order; several streams may run at
// the same time. A thread's kernels go to its current stream, which is initially the device's
// default stream, so no program needs to create one.
//
//   Stream copies(Device::cuda);
//   {
//     const StreamScope scope(copies);
//     copy_async(next, pinned_batch);           // while the default stream computes
//   }
//   Stream::current(Device::cuda).wait_for(copies);
//   … use `next` …
//
// A tensor belongs to the stream that was current when it was created: once the tensor is
// destroyed, that stream may reuse its memory at once. If another stream still works with the
// tensor, call keep() on that stream first. On the CPU every kernel has finished when it returns,
// and all these functions do nothing.
#pragma once

#include "core/tensor.h"

namespace vitrine {

class Event;

class Stream {
 public:
  /// A new stream. It waits for other streams only at wait_for().
  explicit Stream(Device device);
  /// Waits until all of its work is done.
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;

  /// The stream to which this thread's kernels for `device` go.
  static Stream current(Device device);

  Device device() const { return device_; }
  void* handle() const {
    return handle_;
  }  ///< CUDA's cudaStream_t; nullptr for the default stream and on the CPU

  /// Blocks the CPU until all work of the stream so far is done.
  void synchronize() const;
  /// Work given to this stream from now on waits for all work that `other` has so far.
  void wait_for(const Stream& other) const;
  /// The same until the event's point has been reached.
  void wait_for(const Event& event) const;
  /// The memory of x is not reused before all work that this stream has so far is done.
  void keep(const Tensor& x) const;

 private:
  Stream(Device device, void* handle) : device_(device), handle_(handle) {}

  Device device_;
  // Unused in builds without CUDA kernels, like the others here
  [[maybe_unused]] void* handle_ = nullptr;
  [[maybe_unused]] bool owned_ = false;
};

/// While this object lives, this thread's kernels for the stream's device go to the stream. Scopes
/// nest.
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  [[maybe_unused]] void* before_;
};

/// A point in a stream's work: for measuring time, and for waiting for part of the work.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  /// Marks the point at which the thread's current stream has done all its work so far.
  void record();
  void synchronize() const;
  bool is_done() const;
  /// Milliseconds from another recorded event to this one; waits for both.
  double milliseconds_since(const Event& earlier) const;

 private:
  friend class Stream;

  Device device_;
  [[maybe_unused]] void* handle_ = nullptr;
};

/// Waits until a device has done all its work so far.
void synchronize(Device device);

/// Uninitialized page-locked CPU memory, which a GPU reads and writes while the CPU goes on.
/// Ordinary memory if there is no GPU.
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32);

/// A contiguous copy, in such memory, of a CPU tensor x.
Tensor copy_pinned(const Tensor& x);

/// y = x between the CPU and a GPU, on the GPU's current stream; does not wait if the CPU tensor is
/// pinned. Both tensors are kept until the copy is done. The CPU tensor may be read or written
/// again only after synchronize(). Equal shapes and dtypes, contiguous. `to(x, device)` waits.
void copy_async(Tensor& y, const Tensor& x);

}  // namespace vitrine
