// What a piece of code takes of memory: tensors, and all else that the program asks of the heap.
#pragma once

#include <cstddef>
#include <functional>

namespace vitrine::test {

/// Beyond what was in use before.
struct MemoryUse {
  /// Bytes at a time: tensors at their highest, and operator new at its highest
  size_t peak;
  /// The larger of operator new's largest block and what tensors took at a time
  size_t largest;
  size_t allocations;  ///< blocks that tensors took
};

/// Of f and of all threads that work for it. What a thread keeps for the next time counts when it
/// first takes such a part.
MemoryUse memory_use(const std::function<void()>& f);

}  // namespace vitrine::test
