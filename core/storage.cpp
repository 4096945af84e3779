#include "core/storage.h"

#include "core/allocator.h"
#include "core/error.h"

namespace vitrine {
#if !VITRINE_CUDA_KERNELS
void* cuda::allocate(size_t, Device device) {
  fail("a tensor on {} was asked for, but this Vitrine was built without CUDA", to_string(device));
}
void cuda::release(void*, size_t, Device) noexcept {}
#endif

Storage::Storage(size_t bytes, Device device)
    : data_(device.is_cpu() ? memory::allocate(bytes) : cuda::allocate(bytes, device)),
      bytes_(bytes),
      device_(device) {}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> keep_alive)
    : data_(data), bytes_(bytes), device_(device), keep_alive_(std::move(keep_alive)), owned_(false) {}

Storage::~Storage() {
  if (!owned_ || data_ == nullptr) return;
  if (device_.is_cpu()) {
    memory::release(data_, bytes_);
  } else {
    cuda::release(data_, bytes_, device_);
  }
}

}  // namespace vitrine
