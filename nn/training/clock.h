// The time that passes.
#pragma once

#include <chrono>

namespace vitrine::nn::training {

/// Seconds since some moment, of a clock that is never set. Only differences mean something.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace vitrine::nn::training
