// Learning rates by step. Steps count from 0, except in noam, which counts from 1.
#pragma once

#include <cstdint>
#include <functional>

namespace vitrine::optim {

/// The learning rate of a step.
using Schedule = std::function<double(int64_t step)>;

Schedule constant(double lr);  ///< the same at every step
/// Linear from 0 to `peak` over `warmup` steps, then half a cosine down to `floor` at step `total`,
/// and constant from there on. 0 ≤ warmup < total, else an error.
Schedule warmup_cosine(double peak, int64_t warmup, int64_t total, double floor = 0);
/// The same with a straight line instead of the cosine.
Schedule warmup_linear(double peak, int64_t warmup, int64_t total, double floor = 0);
/// scale·width^−½·min(step^−½, step·warmup^−3/2). Vaswani et al. 2017. width, warmup > 0, else an
/// error.
Schedule noam(int64_t width, int64_t warmup, double scale = 1);
/// Linear from `start` to `peak` over `warmup` steps, then peak·√(warmup/step). warmup > 0, else an
/// error.
Schedule inverse_sqrt(double peak, int64_t warmup, double start = 0);
/// peak·(1 + cos(π·step/total))/2, times step/warmup while step ≤ warmup: the schedule of the UvA
/// course notebooks. After `total` the cosine rises again.
Schedule cosine_times_warmup(double peak, int64_t warmup, int64_t total);

}  // namespace vitrine::optim
