// The learning-rate schedule of a run as options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/options.h"
#include "optim/schedule.h"

namespace vitrine::nn::training {

/// The name of a schedule in optim/by_name.h and its numbers.
struct ScheduleOptions {
  std::string name = "cosine";
  double lr = 1e-3;                     ///< the maximum rate
  std::optional<double> final_lr = {};  ///< at the end; default: 1e-4, or lr if lr is less
  /// Warmup steps; default: 100, at most half of all steps. noam and inverse_sqrt use at least one.
  std::optional<int64_t> warmup = {};

  void list(OptionList& o);  ///< see nn/options.h
  /// A copy in which every option of the schedule has a value, for a run of `steps` steps.
  ScheduleOptions resolved(int64_t steps) const;
  /// Errors: a rate out of range; a final rate above the maximum.
  optim::Schedule schedule(int64_t steps) const;
};

}  // namespace vitrine::nn::training
