#include "cuda/runtime/device_error.h"

#include <atomic>
#include <new>

#include "ops/formulas_multinomial.h"

namespace vitrine::cuda {
namespace {

std::atomic<DeviceError*> known{nullptr};

DeviceError* allocate() {
  void* memory = nullptr;
  check_call(cudaMallocHost(&memory, sizeof(DeviceError)), "page-locked memory for errors");
  return known = new (memory) DeviceError;
}

}  // namespace

DeviceError* device_error() {
  static DeviceError* const place = allocate();
  return place;
}

void tell_device_error() {
  DeviceError* const place = known;
  if (place == nullptr || static_cast<volatile unsigned&>(place->complete) == 0) return;
  const DeviceError e = *place;
  place->complete = 0;
  // Now a kernel may write the next error
  std::atomic_ref(place->taken).store(0, std::memory_order_release);
  switch (e.kind) {
    case DeviceError::Kind::index:
      fail("{}: {} has {} at position {}, outside [{}, {})", e.op.get(), e.argument.get(), e.index,
           e.position, e.low, e.high);
    case DeviceError::Kind::share:
      fail("{}: {} has {} at position {}, outside [0, 1]", e.op.get(), e.argument.get(), e.number,
           e.position);
    case DeviceError::Kind::norm: fail("{}: the norm of the gradients is {}", e.op.get(), e.number);
    case DeviceError::Kind::weight: fail_weight(e.position, e.index, e.number);
    case DeviceError::Kind::few: fail_few_weights(e.position, e.index, e.high, false);
    case DeviceError::Kind::few_with_replacement: fail_few_weights(e.position, e.index, e.high, true);
  }
}

}  // namespace vitrine::cuda
