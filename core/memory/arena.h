// Memory of one device, cut into blocks. The allocator is built from arenas.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <unordered_map>

namespace vitrine::memory {

/// The source of an arena's memory.
struct Source {
  std::function<void*(size_t bytes)> take;             ///< nullptr if there is no more
  std::function<void(void* data, size_t bytes)> give;  ///< takes back a whole segment
  /// The alignment of blocks; their sizes are multiples of it.
  size_t alignment;
  size_t segment;      ///< the least number of bytes taken at a time
  size_t granularity;  ///< segment sizes are multiples of this
};

/// Best-fit allocation in segments. A block is split if the remainder is worth keeping, and joined
/// with its free neighbours when it is released. Not thread-safe.
class Arena {
 public:
  explicit Arena(const Source& source) : source_(source) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns `bytes` bytes, a multiple of the alignment; nullptr if the source has no more.
  void* take(size_t bytes);
  /// Releases a block. False if the block is not from this arena.
  bool give(void* data);
  bool holds(const void* data) const { return live_.contains(data); }
  bool is_empty() const { return live_.empty(); }
  /// Returns segments without a live block to the source.
  void release_cached();
  size_t reserved() const { return reserved_; }

 private:
  /// A run of bytes inside a segment, in a list that is ordered by address within each segment.
  struct MemoryBlock {
    char* data;
    size_t size;
    bool free;
    bool heads_segment;
    MemoryBlock* previous;
    MemoryBlock* next;
  };
  struct BySize {
    bool operator()(const MemoryBlock* x, const MemoryBlock* y) const {
      return x->size != y->size ? x->size < y->size : x->data < y->data;
    }
  };

  MemoryBlock* grow(size_t bytes);
  void split(MemoryBlock* block, size_t bytes);
  /// `left` grows over `right`; neither is listed as free.
  void join(MemoryBlock* left, MemoryBlock* right);
  void unlink(MemoryBlock* block);

  const Source& source_;
  MemoryBlock* head_ = nullptr;
  std::set<MemoryBlock*, BySize> free_;
  std::unordered_map<const void*, MemoryBlock*> live_;
  size_t reserved_ = 0;
};

}  // namespace vitrine::memory
