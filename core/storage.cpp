#include "core/storage.h"

#include "core/allocator.h"
#include "core/error.h"

namespace vitrine {
namespace {

DeviceAllocator& cuda_allocator() {
  static DeviceAllocator instance;
  return instance;
}

}  // namespace

void set_device_allocator(DeviceKind kind, DeviceAllocator allocator) {
  check(kind == DeviceKind::cuda, "set_device_allocator: the CPU's allocator is core/allocator.h");
  cuda_allocator() = allocator;
}

Storage::Storage(size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (device.is_cpu()) {
    data_ = memory::allocate(bytes);
    return;
  }
  check(cuda_allocator().allocate != nullptr,
        "a tensor on {} was asked for, but this Vitrine was built without CUDA", to_string(device));
  data_ = cuda_allocator().allocate(bytes, device);
}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> keep_alive)
    : data_(data), bytes_(bytes), device_(device), keep_alive_(std::move(keep_alive)), owned_(false) {}

Storage::~Storage() {
  if (!owned_ || data_ == nullptr) return;
  if (device_.is_cpu()) {
    memory::release(data_, bytes_);
  } else {
    cuda_allocator().release(data_, bytes_, device_);
  }
}

}  // namespace vitrine
