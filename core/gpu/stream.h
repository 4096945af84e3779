// Streams: queues of a GPU's work. What one stream is given runs in order; several may run at a
// time. A thread's kernels go to its current stream, at first to the device's default stream; so no
// program needs a stream of its own.
//
//   Stream copies(Device::cuda);
//   {
//     const StreamScope scope(copies);
//     copy_async(next, pinned_batch);           // while the default stream computes
//   }
//   Stream::current(Device::cuda).wait_for(copies);
//   … use `next` …
//
// A tensor belongs to the stream that was current when it was made: when it ends, that stream may
// use its memory again at once. Before it is released while another stream still works with it,
// tell that stream to keep() it. On the CPU every kernel has finished when it returns, and all of
// this does nothing.
#pragma once

#include "core/tensor.h"

namespace vitrine {

class Event;

class Stream {
 public:
  /// A stream of its own, which waits for no other unless told to.
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

  /// Waits, on the CPU, until all that it was given is done.
  void synchronize() const;
  /// What it is given from now on waits for what `other` was given until now.
  void wait_for(const Stream& other) const;
  /// … until the event has come.
  void wait_for(const Event& event) const;
  /// The memory of x is used for nothing else before what this stream was given until now is done.
  void keep(const Tensor& x) const;

 private:
  Stream(Device device, void* handle) : device_(device), handle_(handle) {}

  Device device_;
  // Unused in builds without CUDA kernels, like the others here
  [[maybe_unused]] void* handle_ = nullptr;
  [[maybe_unused]] bool owned_ = false;
};

/// While it lives, this thread's kernels for the stream's device go to the stream. Scopes nest.
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

/// A moment of a GPU's time: for measuring, and for waiting for a part of a stream's work.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  /// When the thread's current stream has done what it was given until now.
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

/// Waits until a device has done all that it was given.
void synchronize(Device device);

/// Uninitialized memory of the CPU that is page-locked: a GPU reads and writes it while the CPU
/// goes on. Plain memory where there is no GPU.
Tensor empty_pinned(const Shape& shape, DType dtype = DType::float32);

/// A contiguous copy of x, which is on the CPU, in such memory.
Tensor copy_pinned(const Tensor& x);

/// y = x between the CPU and a GPU, on the GPU's current stream, without waiting where the CPU's
/// tensor is pinned. Both are kept until it is done; the CPU's may be read or written again only
/// after synchronize(). Equal shapes and dtypes, contiguous. `to(x, device)` waits.
void copy_async(Tensor& y, const Tensor& x);

}  // namespace vitrine
