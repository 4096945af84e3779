#include "cuda/emulator/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace vitrine::emulator {
namespace {

constexpr size_t kAlignment = 256;

std::atomic<bool> traced = false;
std::atomic<size_t> memory_size = size_t{1} << 40, in_use = 0;

struct Allocations {
  std::shared_mutex mutex;
  std::map<const void*, std::shared_ptr<Allocation>> by_begin;
};

/// Never destroyed: tensors with static lifetime may be released after main.
Allocations& allocations() {
  static Allocations* const instance = new Allocations;
  return *instance;
}

}  // namespace

Allocation::Allocation(char* data, size_t size) : data_(data), size_(size), all_written_(!traced) {
  if (traced) written_ = std::make_unique<std::atomic<bool>[]>(size);
}

void Allocation::write(size_t offset, size_t size) {
  if (!all_written_)
    for (size_t i = offset; i < offset + size; ++i) written_[i].store(true, std::memory_order_relaxed);
}

void trace_device_memory(bool on) { traced = on; }
bool traces_device_memory() { return traced; }
void set_device_memory_size(size_t bytes) { memory_size = bytes; }
size_t device_memory_size() { return memory_size; }
size_t device_memory_in_use() { return in_use; }

void* allocate_device_memory(size_t bytes) {
  if (bytes > memory_size - std::min(memory_size.load(), in_use.load())) return nullptr;
  auto* const data =
      static_cast<char*>(std::aligned_alloc(kAlignment, (bytes / kAlignment + 2) * kAlignment));
  if (data == nullptr) return nullptr;
  Allocations& all = allocations();
  const std::unique_lock lock(all.mutex);
  all.by_begin[data] = std::make_shared<Allocation>(data, bytes);
  in_use += bytes;
  return data;
}

void* allocate_host_memory(size_t bytes) {
  void* const data = allocate_device_memory(bytes);
  if (data != nullptr) find_allocation(data)->write_all();
  return data;
}

void release_device_memory(void* data) {
  Allocations& all = allocations();
  {
    const std::unique_lock lock(all.mutex);
    const auto found = all.by_begin.find(data);
    if (found == all.by_begin.end()) return;
    in_use -= found->second->size();
    all.by_begin.erase(found);
  }
  std::free(data);
}

void copy_device_memory(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  const auto target = traced ? find_allocation(to) : nullptr;
  if (!target) return;
  const auto source = find_allocation(from);
  const auto begin = static_cast<size_t>(target->at(to));
  if (!source) return target->write(begin, bytes);
  for (size_t i = 0; i < bytes; ++i)
    if (source->is_written(static_cast<size_t>(source->at(from)) + i)) target->write(begin + i, 1);
}

void fill_device_memory(void* to, int value, size_t bytes) {
  std::memset(to, value, bytes);
  const auto target = traced ? find_allocation(to) : nullptr;
  if (target) target->write(static_cast<size_t>(target->at(to)), bytes);
}

void device_memory_may_be_written() {
  if (!traced) return;
  Allocations& all = allocations();
  const std::shared_lock lock(all.mutex);
  for (auto& [begin, allocation] : all.by_begin) allocation->write_all();
}

std::shared_ptr<Allocation> find_allocation(const void* address) {
  Allocations& all = allocations();
  const std::shared_lock lock(all.mutex);
  const auto after = all.by_begin.upper_bound(address);
  if (after == all.by_begin.begin()) return nullptr;
  const auto& candidate = std::prev(after)->second;
  return candidate->holds(address) ? candidate : nullptr;
}

std::string describe_nearest_allocation(const void* address) {
  constexpr ptrdiff_t kNear = 1 << 16;
  Allocations& all = allocations();
  const std::shared_lock lock(all.mutex);
  const auto next = all.by_begin.upper_bound(address);
  const Allocation* const lower = next == all.by_begin.begin() ? nullptr : std::prev(next)->second.get();
  const Allocation* const upper = next == all.by_begin.end() ? nullptr : next->second.get();
  const ptrdiff_t after = lower ? lower->at(address) - static_cast<ptrdiff_t>(lower->size()) : kNear;
  const ptrdiff_t before = upper ? -upper->at(address) : kNear;
  if (std::min(after, before) >= kNear) return "which no allocation is near: is it a pointer of the host?";
  return after <= before ? fmt::format("{} bytes after an allocation of {} bytes", after, lower->size())
                         : fmt::format("{} bytes before an allocation of {} bytes", before, upper->size());
}

}  // namespace vitrine::emulator
