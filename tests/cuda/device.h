// What the tests of CUDA kernels share.
#pragma once

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/error.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/block.h"
#endif

namespace vitrine::test {

/// False, said once, in a build by nvcc on a machine without a GPU.
inline bool has_gpu() {
  static const bool found = [] {
    try {
      empty({1}, DType::float32, Device::cuda);
      return true;
    } catch (const Error& e) {
      MESSAGE("NOT RUN on a GPU: ", std::string(e.what()));
      return false;
    }
  }();
  return found;
}

/// Runs f again; with other orders of the threads in a block, where they are emulated. Not under sanitizers and where accesses
/// are traced: what those look for shows in any order.
template <class F>
void in_any_order([[maybe_unused]] F&& f) {
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
#elif VITRINE_CUDA_EMULATED
  for (const uint64_t seed : {1, 2}) {
    emulator::set_thread_order(seed);
    f();
  }
  emulator::set_thread_order(0);
#else
  f();
#endif
}

}  // namespace vitrine::test
