// Code that the benchmarks of a GPU share.
#pragma once

#include <functional>

namespace vitrine::bench {

/// Whether there is a GPU. If there is none, prints "NOT MEASURED: …". If the GPU is emulated,
/// prints that times have no meaning.
bool has_gpu();

/// Seconds of the GPU for one run, by events: the median of `repeats` measurements of `runs` runs
/// each, after one run that does not count.
double gpu_seconds(const std::function<void()>& run, int runs, int repeats);

}  // namespace vitrine::bench
