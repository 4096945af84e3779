#include "core/storage.h"

#include <utility>
#include <vector>

#include "core/memory/allocator.h"
#include "core/state.h"

namespace vitrine {

Storage::Storage(size_t bytes, Device device)
    : data_(memory::allocate(bytes, device)), bytes_(bytes), device_(device) {}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> keep_alive)
    : data_(data), bytes_(bytes), device_(device), keep_alive_(std::move(keep_alive)), owned_(false) {}

Storage::~Storage() {
  if (keep_alive_) detail::release_in_turn(std::move(keep_alive_));
  if (owned_ && data_ != nullptr) memory::release(data_, bytes_, device_);
}

void detail::release_in_turn(std::shared_ptr<void> object) {
  thread_local std::vector<std::shared_ptr<void>>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(std::move(object));
    return;
  }
  std::vector<std::shared_ptr<void>> all;
  waiting = &all;
  while (object) {
    object.reset();
    if (all.empty()) break;
    object = std::move(all.back());
    all.pop_back();
  }
  waiting = nullptr;
}

}  // namespace vitrine
