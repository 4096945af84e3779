// Small blocks that tensors have just released. An op of the next step asks for the same sizes.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace vitrine::memory {

/// Keeps released blocks by their exact size, without joining them with their neighbours. The last
/// block to come is the first to go, because its memory is still in the cache. The list of a size
/// is in the blocks themselves, so nothing is allocated. Not thread-safe.
class RecentBlocks {
 public:
  /// A block of `bytes` bytes; null if there is none.
  void* take(size_t bytes) {
    if (bytes > kLargest) return nullptr;
    Block*& first = first_[bytes / kUnit];
    if (first == nullptr) return nullptr;
    bytes_ -= bytes;
    return std::exchange(first, first->next);
  }
  /// Keeps a block. False if the block is too large, or if there are enough already.
  bool keep(void* data, size_t bytes) {
    if (bytes > kLargest || bytes_ + bytes > kMost) return false;
    Block*& first = first_[bytes / kUnit];
    first = new (data) Block{first};
    bytes_ += bytes;
    return true;
  }
  /// Calls give(data) for each block, and forgets them.
  template <class Give>
  void clear(const Give& give) {
    for (Block*& first : first_)
      while (first != nullptr) give(std::exchange(first, first->next));
    bytes_ = 0;
  }

 private:
  struct Block {
    Block* next;
  };
  static constexpr size_t kUnit = 64;  ///< the alignment of blocks on the CPU
  static constexpr size_t kLargest = size_t{64} << 10, kMost = size_t{1} << 20;
  std::array<Block*, kLargest / kUnit + 1> first_{};
  size_t bytes_ = 0;
};

}  // namespace vitrine::memory
