#include "bench/measure/gpu.h"

#include <fmt/format.h>

#include <vector>

#include "bench/measure/clock.h"
#include "core/creation.h"
#include "core/error.h"
#include "core/gpu/stream.h"

namespace vitrine::bench {

bool has_gpu() {
  try {
    empty({1}, DType::float32, Device::cuda);
  } catch (const Error& e) {
    fmt::print("NOT MEASURED: {}\n", e.what());
    return false;
  }
#if VITRINE_CUDA_EMULATED
  fmt::print("The GPU is emulated: these are times of the CPU, and say nothing of a GPU.\n");
#endif
  return true;
}

double gpu_seconds(const std::function<void()>& run, int runs, int repeats) {
  run();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    Event begin(Device::cuda), end(Device::cuda);
    begin.record();
    for (int k = 0; k < runs; ++k) run();
    end.record();
    times.push_back(end.milliseconds_since(begin) * 1e-3 / runs);
  }
  return median(times);
}

}  // namespace vitrine::bench
