// Code that the tests of CUDA kernels share.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "core/creation.h"
#include "core/error.h"
#include "tests/environment.h"
#include "tests/skip.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/block.h"
#include "cuda/emulator/memory.h"
#endif

namespace vitrine::test {

inline constexpr Device kGpu = Device::cuda;

/// Why there is no GPU to run on, in a build by nvcc; "" where there is one, and in the emulator.
inline const std::string& why_no_gpu() {
  static const std::string reason = [] {
    try {
      empty({1}, DType::float32, Device::cuda);
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  }();
  return reason;
}

/// Without one the test counts as skipped.
inline bool has_gpu() {
  static const bool found = [] {
    if (!why_no_gpu().empty()) skip("there is no GPU: " + why_no_gpu());
    return why_no_gpu().empty();
  }();
  return found;
}

/// The allocator's own blocks while this lives, also where kernels are inspected.
struct [[maybe_unused]] Caching {
#if VITRINE_CUDA_EMULATED
  Caching() : traced(emulator::traces_device_memory()) { emulator::trace_device_memory(false); }
  ~Caching() { emulator::trace_device_memory(traced); }
  const bool traced;
#endif
};

/// What this program's test `name` writes to stderr, in a process of its own with these variables
/// in its environment.
inline std::string told_by(const std::string& name, const std::string& environment = "") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  FILE* const pipe = popen(
      fmt::format("{} '{}' --no-skip --test-case='{}' 2>&1 >/dev/null", environment, program, name).c_str(),
      "r");
  check(pipe != nullptr, "told_by: cannot run {}", program);
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

/// Runs f again; with another order of the threads in a block, where they are emulated. Not under
/// sanitizers and where accesses are traced: what those look for shows in any order.
template <class F>
void in_any_order([[maybe_unused]] F&& f) {
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
#elif VITRINE_CUDA_EMULATED
  emulator::set_thread_order(1);
  f();
  emulator::set_thread_order(0);
#else
  f();
#endif
}

/// Whether case `i` of a long list runs: each of them, but every second one where each access to
/// memory is checked.
inline bool is_chosen([[maybe_unused]] size_t i) {
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
  return i % 2 == 0;
#else
  return true;
#endif
}

}  // namespace vitrine::test
