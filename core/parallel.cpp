#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "core/error.h"

namespace vitrine {

int threads() { return omp_get_max_threads(); }

void set_threads(int count) {
  check(count >= 1 && count <= 1024, "set_threads: wanted 1 to 1024 threads, got {}", count);
  omp_set_num_threads(count);
}

bool in_parallel() { return omp_in_parallel(); }

namespace detail {

void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body, void* context) {
  check(grain > 0, "parallel_for: the grain is {}, wanted at least 1", grain);
  if (begin >= end) return;
  const int64_t chunks = (end - begin + grain - 1) / grain;
  const auto run = [&](int64_t chunk) {
    const int64_t b = begin + chunk * grain;
    body(context, b, std::min(end, b + grain));
  };
  const int team = static_cast<int>(std::min<int64_t>(chunks, threads()));
  if (team <= 1 || in_parallel()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  std::exception_ptr error;
  int64_t error_chunk = chunks;
#pragma omp parallel for schedule(static) num_threads(team)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    try {
      run(chunk);
    } catch (...) {
#pragma omp critical(vitrine_parallel_for_error)
      if (chunk < error_chunk) {
        error_chunk = chunk;
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace vitrine
