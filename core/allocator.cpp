#include "core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VITRINE_PASS_THROUGH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define VITRINE_PASS_THROUGH 1
#endif
#endif

namespace vitrine::memory {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSegment = 8 * kHugePage;

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// A run of bytes inside a segment, in a list ordered by address.
struct Block {
  char* data;
  size_t size;
  bool free;
  bool heads_segment;
  Block* previous;
  Block* next;
};

struct BySize {
  bool operator()(const Block* x, const Block* y) const {
    return x->size != y->size ? x->size < y->size : x->data < y->data;
  }
};

/// Best fit over segments of at least 16 MiB. A block is split when what remains is worth keeping, and joined with its
/// free neighbours when it is released. Not thread safe by itself.
class Arena {
 public:
  void* take(size_t bytes) {
    Block key{nullptr, bytes, true, false, nullptr, nullptr};
    auto found = free_.lower_bound(&key);
    Block* block = found == free_.end() ? grow(bytes) : *found;
    free_.erase(block);
    if (block->size >= bytes + kAlignment) split(block, bytes);
    block->free = false;
    live_.emplace(block->data, block);
    return block->data;
  }

  void give(void* data) {
    const auto found = live_.find(data);
    Block* block = found->second;
    live_.erase(found);
    block->free = true;
    if (block->next && block->next->free && !block->next->heads_segment) join(block, block->next);
    if (block->previous && block->previous->free && !block->heads_segment) {
      block = block->previous;
      join(block, block->next, /*left_is_listed=*/true);
    }
    free_.insert(block);
  }

  void release_cached() {
    for (auto it = free_.begin(); it != free_.end();) {
      Block* block = *it;
      const bool whole = block->heads_segment && (!block->next || block->next->heads_segment);
      if (!whole) {
        ++it;
        continue;
      }
      it = free_.erase(it);
      reserved_ -= block->size;
      munmap(block->data, block->size);
      unlink(block);
    }
  }

  size_t reserved() const { return reserved_; }

 private:
  Block* grow(size_t bytes) {
    const size_t size = round_up(std::max(bytes, kSegment), kHugePage);
    const auto ask = [&] {
      return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    void* data = ask();
    if (data == MAP_FAILED) {
      release_cached();
      data = ask();
    }
    check(data != MAP_FAILED, "out of memory: asked the system for {} MiB, {} MiB are already held",
          size >> 20, reserved_ >> 20);
    madvise(data, size, MADV_HUGEPAGE);
    reserved_ += size;
    auto* block = new Block{static_cast<char*>(data), size, true, true, nullptr, head_};
    if (head_) head_->previous = block;
    head_ = block;
    free_.insert(block);
    return block;
  }

  void split(Block* block, size_t bytes) {
    auto* rest = new Block{block->data + bytes, block->size - bytes, true, false, block, block->next};
    if (block->next) block->next->previous = rest;
    block->next = rest;
    block->size = bytes;
    free_.insert(rest);
  }

  /// Grows `left` over `right`, which is free and listed.
  void join(Block* left, Block* right, bool left_is_listed = false) {
    if (left_is_listed) {
      free_.erase(left);
    } else {
      free_.erase(right);
    }
    left->size += right->size;
    unlink(right);
  }

  void unlink(Block* block) {
    if (block->previous) block->previous->next = block->next;
    if (block->next) block->next->previous = block->previous;
    if (head_ == block) head_ = block->next;
    delete block;
  }

  Block* head_ = nullptr;
  std::set<Block*, BySize> free_;
  std::unordered_map<void*, Block*> live_;
  size_t reserved_ = 0;
};

struct State {
  std::mutex mutex;
  Arena arena;
  Statistics statistics;
  std::map<std::string, size_t> by_op;
};

/// Never destroyed: tensors with static lifetime may be released after main.
State& state() {
  static State* instance = new State;
  return *instance;
}

std::atomic<bool> tracking{false};
std::atomic<bool> poisoning{false};
thread_local size_t uncharged = 0;

}  // namespace

void* allocate(size_t bytes) {
  const size_t size = round_up(std::max<size_t>(bytes, 1), kAlignment);
  check(size >= bytes && size < (size_t{1} << 48), "out of memory: {} bytes were asked for", bytes);
  void* data = nullptr;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
#if VITRINE_PASS_THROUGH
    data = std::aligned_alloc(kAlignment, size);
    check(data != nullptr, "out of memory: {} bytes were asked for", bytes);
#else
    data = s.arena.take(size);
#endif
    s.statistics.now += size;
    s.statistics.peak = std::max(s.statistics.peak, s.statistics.now);
    ++s.statistics.allocations;
  }
  if (tracking.load(std::memory_order_relaxed)) uncharged += size;
  if (poisoning.load(std::memory_order_relaxed)) std::memset(data, 0xFF, size);
  return data;
}

void release(void* block, size_t bytes) noexcept {
  State& s = state();
  const std::lock_guard lock(s.mutex);
#if VITRINE_PASS_THROUGH
  std::free(block);
#else
  s.arena.give(block);
#endif
  s.statistics.now -= round_up(std::max<size_t>(bytes, 1), kAlignment);
}

Statistics statistics() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Statistics result = s.statistics;
#if VITRINE_PASS_THROUGH
  result.reserved = result.now;
#else
  result.reserved = s.arena.reserved();
#endif
  return result;
}

void reset_peak() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.statistics.peak = s.statistics.now;
}

void release_cached() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.arena.release_cached();
}

void track_ops(bool on) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (on) s.by_op.clear();
  uncharged = 0;
  tracking = on;
}

std::map<std::string, size_t> by_op() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.by_op;
}

size_t charge(const char* op) {
  if (!tracking.load(std::memory_order_relaxed) || uncharged == 0) return 0;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.by_op[op] += uncharged;
  return std::exchange(uncharged, 0);
}

void poison_new_memory(bool on) { poisoning = on; }

}  // namespace vitrine::memory
