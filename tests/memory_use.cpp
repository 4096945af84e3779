// This program replaces operator new to count the heap. Sanitizers have an operator new of their
// own. AddressSanitizer's hooks report all blocks of malloc, also those of tensors.
// ThreadSanitizer's hooks report the end of a block from aligned_alloc, but not its beginning. So
// under ThreadSanitizer only tensors count, by the library's own statistics.
#include "tests/memory_use.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "core/memory/allocator.h"

#ifndef VITRINE_SANITIZED
#include <malloc.h>
#endif

namespace {

std::atomic<size_t> now{0}, peak{0}, largest{0};

void raise_to(std::atomic<size_t>& highest, size_t value) {
  size_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) continue;
}

[[maybe_unused]] void taken(size_t bytes) {
  raise_to(peak, now.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  raise_to(largest, bytes);
}

[[maybe_unused]] void given(size_t bytes) { now.fetch_sub(bytes, std::memory_order_relaxed); }

}  // namespace

#if defined(VITRINE_SANITIZED) && !defined(VITRINE_THREADS_SANITIZED)

extern "C" {  // of sanitizer/allocator_interface.h, which g++ does not bring
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                              void (*free_hook)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* data);
}

namespace {

[[maybe_unused]] const int kInstalled =
    __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t bytes) { taken(bytes); },
                                              [](const volatile void* data) {
                                                if (data != nullptr)
                                                  given(__sanitizer_get_allocated_size(data));
                                              });

}  // namespace

#elif !defined(VITRINE_SANITIZED)

void* operator new(size_t bytes) {
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  taken(malloc_usable_size(data));
  return data;
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto multiple = static_cast<size_t>(alignment);
  void* const data = std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple);
  if (data == nullptr) throw std::bad_alloc();
  taken(malloc_usable_size(data));
  return data;
}

void operator delete(void* data) noexcept {
  given(malloc_usable_size(data));
  std::free(data);
}

void operator delete(void* data, size_t) noexcept { operator delete(data); }
void operator delete(void* data, std::align_val_t) noexcept { operator delete(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { operator delete(data); }

#endif

namespace vitrine::test {

MemoryUse memory_use(const std::function<void()>& f) {
  memory::reset_peak();
  const memory::Statistics before = memory::statistics();
  const size_t heap = now.load();
  peak = heap;
  largest = 0;
  f();
  const memory::Statistics after = memory::statistics();
#if defined(VITRINE_SANITIZED) && !defined(VITRINE_THREADS_SANITIZED)
  const size_t tensors = 0;  // they are in the heap
#else
  const size_t tensors = after.peak - before.now;
#endif
  return {tensors + peak.load() - heap, std::max(tensors, largest.load()),
          after.allocations - before.allocations};
}

}  // namespace vitrine::test
