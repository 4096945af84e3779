// Memory of a thread for one purpose, which stays from call to call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace vitrine::detail {

/// It only grows, and to what any thread has asked of its kind: work goes to whichever thread is free, so that what one of them
/// needed today another needs tomorrow, and after the first steps of a training none would have to ask the system again.
class ThreadBuffer {
 public:
  /// At least `bytes`, at a multiple of a page; a later call overwrites them. `most` is shared by the buffers of a kind.
  void* take(size_t bytes, std::atomic<size_t>& most);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

/// `count` elements for a purpose, a value of any enumeration.
template <class T, auto Purpose>
T* thread_buffer(size_t count) {
  static std::atomic<size_t> most = 0;
  thread_local ThreadBuffer buffer;
  return static_cast<T*>(buffer.take(count * sizeof(T), most));
}

}  // namespace vitrine::detail
