// What a kernel finds wrong with the numbers that it reads. It cannot throw: it leaves a note where
// the CPU sees it, goes on with a number that does no harm, and what next waits for the GPU throws
// the Error.
#pragma once

#include "cuda/launch.h"

namespace vitrine::cuda {

/// Text of the CPU, which a kernel only hands on. No kernel can make one: its literals lie in the
/// GPU's memory.
class HostText {
 public:
  HostText() = default;
  HostText(const char* text) : text_(text) {}
  const char* get() const { return text_; }

 private:
  const char* text_ = nullptr;
};

/// In page-locked memory of the CPU, which every GPU writes and nobody has to copy. The first error
/// stays until it is told.
struct DeviceError {
  enum class Kind { index, share, norm, weight, few, few_with_replacement };

  unsigned taken = 0, complete = 0;
  Kind kind = Kind::index;
  HostText op = {}, argument = {};  // of an index and a share; a norm has no argument
  int64_t index = 0, position = 0, low = 0, high = 0;
  /// A share, a norm, or a weight, whose row is `position`. Of few weights `index` are above 0, for
  /// `high` draws.
  double number = 0;
};

/// Where kernels leave it.
DeviceError* device_error();
/// Throws what kernels that have finished left.
void tell_device_error();

__device__ inline void leave(DeviceError* place, DeviceError error) {
  // Looked at first: each atomic operation is a journey over the bus, and thousands of threads may
  // come here.
  if (static_cast<volatile unsigned&>(place->taken) != 0u || atomicCAS(&place->taken, 0u, 1u) != 0u) return;
  error.taken = 1;
  *place = error;
  __threadfence_system();
  place->complete = 1;
}

}  // namespace vitrine::cuda
