// Code that the tests of the emulator's checks share. Their files are compiled with
// VITRINE_TRACE_OPTIONS.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/creation.h"
#include "cuda/launch.h"
#include "ops/view.h"
#include "tests/cuda/device.h"

namespace vitrine::test {

/// On the device: 0, 1, 2, …
inline Tensor numbers(int64_t n) {
  return to(arange(0, static_cast<double>(n), 1, DType::int32), Device::cuda);
}
inline Tensor unwritten(int64_t n) { return empty({n}, DType::int32, Device::cuda); }

/// What the emulator says of f, "" when nothing.
template <class F>
std::string complaint_about(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Of a kernel of two blocks.
template <class Kernel, class... Arguments>
std::string complaint(Kernel* suspect, unsigned threads, size_t shared, Arguments... arguments) {
  return complaint_about([&] { VITRINE_LAUNCH(suspect, 2, threads, shared, arguments...); });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace vitrine::test
