// Memory of a thread for one purpose, which stays from call to call.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

namespace vitrine::detail {

/// It grows, when it is next taken, to what any thread has needed of its kind: work goes to
/// whichever thread is free, and what one of them needs today another needs tomorrow. So a steady
/// program soon asks the system for nothing.
class ThreadBuffer {
 public:
  /// At least `bytes`, at a multiple of a page. The next call, for fewer bytes too, may free them.
  /// `most` is shared by the buffers of a kind. Where there is not so much memory for all of them,
  /// what is asked; where not even that, std::bad_alloc.
  void* take(size_t bytes, std::atomic<size_t>& most);

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(void* p) const { operator delete(p, kAlignment); }
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
