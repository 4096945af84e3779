// The learning rates of a run as options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/options.h"
#include "optim/schedule.h"

namespace vitrine::nn::training {

/// A schedule of optim/by_name.h and its numbers.
struct ScheduleOptions {
  std::string name = "cosine";
  double lr = 1e-3;                ///< the highest rate
  std::optional<double> final_lr;  ///< at the end; without a value 1e-4, or lr where that is less
  /// Steps of warmup, at most half of all; without a value 100. noam and inverse_sqrt take at least
  /// one.
  std::optional<int64_t> warmup;

  void list(OptionList& o);  ///< see nn/options.h
  /// With a value for each option that the schedule has, for a run of `steps` steps.
  ScheduleOptions resolved(int64_t steps) const;
  /// A rate that is out of range, or a final rate above the highest one, is an error.
  optim::Schedule schedule(int64_t steps) const;
};

}  // namespace vitrine::nn::training
