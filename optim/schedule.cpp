#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace vitrine::optim {
namespace {

/// Warmup to `peak`, then floor + (peak − floor)·fall(progress), progress in [0, 1].
template <class F>
Schedule warmup_then(const char* name, double peak, int64_t warmup, int64_t total, double floor, F fall) {
  check(warmup >= 0 && total > warmup, "{}: wanted 0 ≤ warmup < total, got {} and {}", name, warmup, total);
  return [=](int64_t step) {
    if (step < warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
    const double progress = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
    return floor + (peak - floor) * fall(std::min(progress, 1.0));
  };
}

}  // namespace

Schedule constant(double lr) {
  return [lr](int64_t) { return lr; };
}

Schedule warmup_cosine(double peak, int64_t warmup, int64_t total, double floor) {
  return warmup_then("warmup_cosine", peak, warmup, total, floor,
                     [](double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; });
}

Schedule warmup_linear(double peak, int64_t warmup, int64_t total, double floor) {
  return warmup_then("warmup_linear", peak, warmup, total, floor,
                     [](double progress) { return 1 - progress; });
}

Schedule noam(int64_t width, int64_t warmup, double scale) {
  check(width > 0 && warmup > 0, "noam: wanted a width and a warmup above 0, got {} and {}", width, warmup);
  return [=](int64_t step) {
    check(step > 0, "noam: steps count from 1, got {}", step);
    const double s = static_cast<double>(step), w = static_cast<double>(warmup);
    return scale / std::sqrt(static_cast<double>(width)) * std::min(1 / std::sqrt(s), s / (w * std::sqrt(w)));
  };
}

Schedule inverse_sqrt(double peak, int64_t warmup, double start) {
  check(warmup > 0, "inverse_sqrt: the warmup is {}, wanted at least 1", warmup);
  return [=](int64_t step) {
    const double s = static_cast<double>(step), w = static_cast<double>(warmup);
    return step < warmup ? start + (peak - start) * s / w : peak * std::sqrt(w / s);
  };
}

Schedule cosine_times_warmup(double peak, int64_t warmup, int64_t total) {
  check(warmup >= 0 && total > 0, "cosine_times_warmup: wanted warmup ≥ 0 and total > 0, got {} and {}",
        warmup, total);
  return [=](int64_t step) {
    const double s = static_cast<double>(step);
    const double cosine = peak * (1 + std::cos(std::numbers::pi * s / static_cast<double>(total))) / 2;
    return step <= warmup && warmup > 0 ? cosine * s / static_cast<double>(warmup) : cosine;
  };
}

}  // namespace vitrine::optim
