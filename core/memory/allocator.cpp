#include "core/memory/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/gpu/capture.h"
#include "core/gpu/gpu.h"
#include "core/memory/arena.h"
#include "core/memory/recent_blocks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VITRINE_PASS_THROUGH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define VITRINE_PASS_THROUGH 1
#endif
#endif

namespace vitrine::memory {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
#ifdef VITRINE_PASS_THROUGH
constexpr bool kPassThrough = true;
#else
constexpr bool kPassThrough = false;
#endif

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void* map_pages(void* at, size_t bytes, int protection, int flags = 0) {
  void* const data = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

/// Memory from `at` on, if no other mapping is there.
bool map_exactly(void* at, size_t bytes) {
  void* const data = map_pages(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
  if (data != nullptr && data != at) munmap(data, bytes);  // a kernel that does not know the flag
  if (data == at) madvise(data, bytes, MADV_HUGEPAGE);
  return data == at;
}

/// Memory with unused addresses after it, as many as the process may have, so that it can grow
/// there. The addresses are only looked for, and cost nothing.
void* map_with_room(size_t bytes) {
  for (size_t size = size_t{1} << 40; size > 2 * bytes; size /= 2) {
    void* const room = map_pages(nullptr, size, PROT_NONE);
    if (room == nullptr) continue;
    munmap(room, size);
    void* const first = reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(room), kHugePage));
    if (map_exactly(first, bytes)) return first;
    break;
  }
  void* const data = map_pages(nullptr, bytes, PROT_READ | PROT_WRITE);
  if (data != nullptr) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

Source of_system() {
  if (kPassThrough)
    return {[](size_t bytes) { return std::aligned_alloc(64, round_up(std::max<size_t>(bytes, 1), 64)); },
            [](void* data, size_t) noexcept { std::free(data); }, 64, 8 * kHugePage, kHugePage};
  return {.take = map_with_room,
          .give = [](void* data, size_t bytes) noexcept { munmap(data, bytes); },
          .alignment = 64,
          .segment = 8 * kHugePage,
          .granularity = kHugePage,
          .extend = map_exactly,
          .page = static_cast<size_t>(sysconf(_SC_PAGESIZE))};
}

Source of_gpu(Device device) {
  return {[device](size_t bytes) { return cuda::take_memory(bytes, device); },
          [](void* data, size_t) noexcept { cuda::give_memory(data); }, 512, 8 * kHugePage, kHugePage};
}

/// The memory of a device: an arena for each stream.
class Pool {
 public:
  explicit Pool(Device device) : device_(device), source_(device.is_cpu() ? of_system() : of_gpu(device)) {}

  void* allocate(size_t bytes) {
    const size_t size = rounded(bytes);
    check(size >= bytes && size < (size_t{1} << 48), "out of memory: {} bytes were asked for", bytes);
    if (!device_.is_cpu()) cuda::release_finished();
    const void* const stream = device_.is_cpu() ? nullptr : cuda::current_stream(device_);
    void* data = take_or_release(bytes, stream);
    if (data == nullptr && !device_.is_cpu() && !detail::capturing()) {
      cuda::wait_for_kept();
      data = take_or_release(bytes, stream);
    }
    const std::lock_guard lock(mutex_);
    if (data == nullptr) fail_for(bytes);
    statistics_.now += size;
    statistics_.peak = std::max(statistics_.peak, statistics_.now);
    ++statistics_.allocations;
    return data;
  }

  void release(void* data, size_t bytes) noexcept {
    const size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    statistics_.now -= size;
    if (keeps_recent() && recent_.keep(data, size)) return;
    for (auto& [stream, arena] : arenas_)
      if (arena.give(data)) return;
    source_.give(data, size);
    uncached_ -= size;
  }

  Statistics statistics() {
    const std::lock_guard lock(mutex_);
    Statistics result = statistics_;
    result.reserved = reserved();
    return result;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.now;
  }

  void release_cached() {
    if (!device_.is_cpu()) cuda::release_finished();
    const std::lock_guard lock(mutex_);
    release_cached_here();
  }

  void hold(const void* stream) {
    const std::lock_guard lock(mutex_);
    held_.insert(stream);
  }

  void let_go(const void* stream) {
    const std::lock_guard lock(mutex_);
    held_.erase(stream);
  }

  bool is_of(const void* stream, const void* block) {
    const std::lock_guard lock(mutex_);
    const auto arena = arenas_.find(stream);
    return arena != arenas_.end() && arena->second.holds(block);
  }

  bool is_empty(const void* stream) {
    const std::lock_guard lock(mutex_);
    const auto arena = arenas_.find(stream);
    return arena == arenas_.end() || arena->second.is_empty();
  }

  size_t rounded(size_t bytes) const { return round_up(std::max<size_t>(bytes, 1), source_.alignment); }

 private:
  void* take_or_release(size_t bytes, const void* stream) {
    const std::lock_guard lock(mutex_);
    if (void* const data = take(bytes, stream)) return data;
    release_cached_here();
    return take(bytes, stream);
  }

  /// A GPU's memory is ordered by streams, which these blocks do not know.
  bool keeps_recent() const { return !kPassThrough && device_.is_cpu(); }

  void* take(size_t bytes, const void* stream) {
    if (keeps_recent())
      if (void* const data = recent_.take(rounded(bytes))) return data;
    const bool caches = !kPassThrough && (device_.is_cpu() || cuda::caches_memory());
    if (caches || held_.contains(stream))
      return arenas_.try_emplace(stream, source_).first->second.take(rounded(bytes));
    void* const data = source_.take(std::max<size_t>(bytes, 1));
    if (data != nullptr) uncached_ += rounded(bytes);
    return data;
  }

  void release_cached_here() {
    recent_.clear([this](void* data) { arenas_.at(nullptr).give(data); });
    for (auto& [stream, arena] : arenas_)
      if (!held_.contains(stream)) arena.release_cached();
  }

  size_t reserved() const {
    size_t sum = uncached_;
    for (const auto& [stream, arena] : arenas_) sum += arena.reserved();
    return sum;
  }

  [[noreturn]] void fail_for(size_t bytes) const {
    fail("out of memory{}: {} bytes were asked for; {} MiB are held, {} of them by tensors{}",
         device_.is_cpu() ? "" : " on " + to_string(device_), bytes, reserved() >> 20, statistics_.now >> 20,
         device_.is_cpu() ? "" : cuda::describe_free_memory(device_));
  }

  const Device device_;
  const Source source_;
  std::mutex mutex_;
  size_t uncached_ = 0;
  Statistics statistics_;
  std::map<const void*, Arena> arenas_;
  RecentBlocks recent_;
  std::set<const void*> held_;
};

struct State {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Pool>> gpus;
  std::map<std::string, size_t> by_op;
};

/// Never destroyed, and neither are the pools: tensors with static lifetime may be released after
/// main.
State& state() {
  static State* const instance = new State;
  return *instance;
}

Pool& pool(Device device) {
  static Pool* const cpu = new Pool(Device::cpu);
  if (device.is_cpu()) return *cpu;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::unique_ptr<Pool>& gpu = s.gpus[device.index];
  if (!gpu) gpu = std::make_unique<Pool>(device);
  return *gpu;
}

std::atomic<bool> tracking{false};
std::atomic<bool> poisoning{false};
thread_local size_t uncharged = 0;

}  // namespace

void* allocate(size_t bytes, Device device) {
  Pool& from = pool(device);
  void* const data = from.allocate(bytes);
  const size_t size = from.rounded(bytes);
  if (tracking.load(std::memory_order_relaxed)) uncharged += size;
  if (device.is_cpu() && poisoning.load(std::memory_order_relaxed)) std::memset(data, 0xFF, size);
  return data;
}

void release(void* block, size_t bytes, Device device) noexcept { pool(device).release(block, bytes); }
Statistics statistics(Device device) { return pool(device).statistics(); }
void reset_peak(Device device) { pool(device).reset_peak(); }
void release_cached(Device device) { pool(device).release_cached(); }

void hold(const void* stream, Device device) { pool(device).hold(stream); }
void let_go(const void* stream, Device device) { pool(device).let_go(stream); }
bool is_of(const void* stream, const void* block, Device device) { return pool(device).is_of(stream, block); }
bool is_empty(const void* stream, Device device) { return pool(device).is_empty(stream); }

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
