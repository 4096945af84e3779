#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
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
namespace {

/// The chunks that a thread begins with (beyond 64 threads several share them); each is taken once, by who comes first.
struct alignas(64) Run {
  std::atomic<int64_t> next;
  int64_t end;
};

}  // namespace

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
  const auto run_or_note = [&](int64_t chunk) {
    try {
      run(chunk);
    } catch (...) {
#pragma omp critical(vitrine_parallel_for_error)
      if (chunk < error_chunk) {
        error_chunk = chunk;
        error = std::current_exception();
      }
    }
  };
  constexpr int kMostRuns = 64;
  const int count = std::min(team, kMostRuns);
  std::array<Run, kMostRuns> runs;
  for (int i = 0; i < count; ++i) {
    runs[i].next.store(i * chunks / count, std::memory_order_relaxed);
    runs[i].end = (i + 1) * chunks / count;
  }
#pragma omp parallel num_threads(team)
  for (int i = 0; i < count; ++i) {  // one's own run, then what the others have not begun
    Run& from = runs[(omp_get_thread_num() + i) % count];
    if (from.next.load(std::memory_order_relaxed) >= from.end) continue;
    for (int64_t chunk; (chunk = from.next.fetch_add(1, std::memory_order_relaxed)) < from.end;)
      run_or_note(chunk);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace vitrine
