#include "core/storage.h"

#include "core/allocator.h"

namespace vitrine {

Storage::Storage(size_t bytes, Device device)
    : data_(memory::allocate(bytes, device)), bytes_(bytes), device_(device) {}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> keep_alive)
    : data_(data), bytes_(bytes), device_(device), keep_alive_(std::move(keep_alive)), owned_(false) {}

Storage::~Storage() {
  if (owned_ && data_ != nullptr) memory::release(data_, bytes_, device_);
}

}  // namespace vitrine
