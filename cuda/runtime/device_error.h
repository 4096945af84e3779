// Errors that a kernel finds in the numbers that it reads. A kernel cannot throw. It writes the
// error where the CPU can read it, and continues with a harmless number. The next call that waits
// for the GPU throws the Error.
#pragma once

#include "cuda/launch.h"

namespace vitrine::cuda {

/// A text in the CPU's memory, which a kernel only passes on. A kernel cannot create one, because
/// its own literals are in the GPU's memory.
class HostText {
 public:
  HostText() = default;
  HostText(const char* text) : text_(text) {}
  const char* get() const { return text_; }

 private:
  const char* text_ = nullptr;
};

/// In page-locked CPU memory, which every GPU can write, so no copy is needed. The first error
/// stays until it is reported.
struct DeviceError {
  enum class Kind { index, share, norm, weight, few, few_with_replacement };

  unsigned taken = 0, complete = 0;
  Kind kind = Kind::index;
  HostText op = {}, argument = {};  // op only for a norm
  int64_t index = 0, position = 0, low = 0, high = 0;
  /// The wrong share, norm or weight; `position` is the row of a weight. For too few weights:
  /// `index` weights are above 0, for `high` draws.
  double number = 0;
};

/// The place where kernels write an error.
DeviceError* device_error();
/// Throws the error that finished kernels have written, if any.
void tell_device_error();

__device__ inline void leave(DeviceError* place, DeviceError error) {
  // `taken` is read first: each atomic operation goes over the bus, and thousands of threads may
  // come here.
  if (static_cast<volatile unsigned&>(place->taken) != 0u || atomicCAS(&place->taken, 0u, 1u) != 0u) return;
  error.taken = 1;
  *place = error;
  __threadfence_system();
  place->complete = 1;
}

}  // namespace vitrine::cuda
