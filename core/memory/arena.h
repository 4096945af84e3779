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
  /// Takes the bytes that begin at `end`, where a segment ends, so that the segment becomes longer;
  /// false if they are not available. Null if segments cannot grow.
  std::function<bool(void* end, size_t bytes)> extend = nullptr;
  /// `give` also takes back a part of a segment that begins and ends at a multiple of this; 0:
  /// whole segments only.
  size_t page = 0;
};

/// Best-fit allocation in segments. A block is split if the remainder is worth keeping, and joined
/// with its free neighbours when it is released. If no block is large enough, the last segment
/// grows, or else a new one is taken. One long segment wastes the least: a large tensor fits where
/// many small ones were. Not thread-safe.
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
  /// Returns segments without a live block to the source; also the free pages of other segments, if
  /// the source takes back parts.
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

  /// A free block of at least `bytes` bytes, in new memory; null if the source has no more.
  MemoryBlock* grow(size_t bytes);
  MemoryBlock* extend_last(size_t bytes);
  size_t segment_size(size_t bytes) const;
  /// Adds a free block: at the end of the list, or in the same segment after another block.
  MemoryBlock* append(char* data, size_t bytes, bool heads_segment);
  void insert_after(MemoryBlock* block, char* data, size_t bytes);
  bool is_whole_segment(const MemoryBlock* block) const;
  /// Returns the bytes from `begin` to `end` of a block to the source, and keeps the rest.
  void give_back(MemoryBlock* block, char* begin, char* end);
  void split(MemoryBlock* block, size_t bytes);
  /// `left` grows over `right`; neither is listed as free.
  void join(MemoryBlock* left, MemoryBlock* right);
  void unlink(MemoryBlock* block);

  const Source& source_;
  MemoryBlock* last_ = nullptr;  ///< of the list; it ends the segment that may grow
  std::set<MemoryBlock*, BySize> free_;
  std::unordered_map<const void*, MemoryBlock*> live_;
  size_t reserved_ = 0;
};

}  // namespace vitrine::memory
