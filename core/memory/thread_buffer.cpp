#include "core/memory/thread_buffer.h"

#include <algorithm>

namespace vitrine::detail {

void* ThreadBuffer::take(size_t bytes, std::atomic<size_t>& most) {
  const size_t known = most.load(std::memory_order_relaxed), wanted = std::max(bytes, known);
  if (bytes_ < wanted) {
    size_t size = std::max(wanted, 2 * bytes_);
    data_.reset();  // before the new memory is there
    bytes_ = 0;
    data_.reset(operator new(size, kAlignment, std::nothrow));
    if (data_ == nullptr) data_.reset(operator new(size = bytes, kAlignment));
    bytes_ = size;
  }
  for (size_t seen = known;
       seen < bytes && !most.compare_exchange_weak(seen, bytes, std::memory_order_relaxed);)
    continue;
  return data_.get();
}

}  // namespace vitrine::detail
