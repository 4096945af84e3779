// A buffer that a thread reuses from call to call for one purpose.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

namespace vitrine::detail {

/// When it is next taken, the buffer grows to the largest size that any thread has needed for this
/// purpose. Work goes to whichever thread is free, so a size that one thread needs now another will
/// need later. A steady program thus soon stops allocating.
class ThreadBuffer {
 public:
  /// Returns at least `bytes` bytes, aligned to a page. The next call may free them, even if it
  /// requests fewer. The buffers of one purpose share `most`. If there is not enough memory for
  /// `most` bytes, `bytes` bytes are allocated; if that fails too, std::bad_alloc.
  void* take(size_t bytes, std::atomic<size_t>& most);

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(void* p) const { operator delete(p, kAlignment); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

/// A buffer of `count` elements for a purpose, which is a value of any enumeration.
template <class T, auto Purpose>
T* thread_buffer(size_t count) {
  static std::atomic<size_t> most = 0;
  thread_local ThreadBuffer buffer;
  return static_cast<T*>(buffer.take(count * sizeof(T), most));
}

}  // namespace vitrine::detail
