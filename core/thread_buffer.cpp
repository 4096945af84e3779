#include "core/thread_buffer.h"

#include <algorithm>
#include <new>

namespace vitrine::detail {

void* ThreadBuffer::take(size_t bytes, std::atomic<size_t>& most) {
  size_t wanted = most.load(std::memory_order_relaxed);
  while (wanted < bytes && !most.compare_exchange_weak(wanted, bytes, std::memory_order_relaxed)) continue;
  wanted = std::max(wanted, bytes);
  if (bytes_ < wanted) {
    constexpr size_t kPage = 4096;
    const size_t size = (std::max(wanted, 2 * bytes_) + kPage - 1) / kPage * kPage;
    bytes_ = 0;
    data_.reset();
    data_.reset(std::aligned_alloc(kPage, size));
    if (data_ == nullptr) throw std::bad_alloc();
    bytes_ = size;
  }
  return data_.get();
}

}  // namespace vitrine::detail
