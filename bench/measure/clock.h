// Time and its summary, for every benchmark.
#pragma once

#include <time.h>

#include <vector>

namespace vitrine::bench {

/// Seconds of CLOCK_MONOTONIC (wall-clock time, for all threads) or CLOCK_THREAD_CPUTIME_ID (this
/// thread only).
inline double seconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> x);
/// The shortest of some times.
double best(const std::vector<double>& seconds);

}  // namespace vitrine::bench
