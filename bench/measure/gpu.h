// What the benchmarks of a GPU share.
#pragma once

#include <functional>

namespace vitrine::bench {

/// Whether there is a GPU. Says so where there is none ("NOT MEASURED: …"), and that times mean
/// nothing where it is emulated.
bool has_gpu();

/// Seconds of the GPU for one run, by events: the median of `repeats` measurements of `runs` runs
/// each, after one run that does not count.
double gpu_seconds(const std::function<void()>& run, int runs, int repeats);

}  // namespace vitrine::bench
