// The learning rates of the past steps of a run. With them, a resumed run continues the same run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optim/schedule.h"

namespace vitrine::nn::training {

/// A resume with another schedule.
struct ScheduleChange {
  int64_t after_step = 0;   ///< the last step with the previous schedule
  double from = 0, to = 0;  ///< the learning rates of that step and of the next step

  std::string text() const;  ///< "after step 100: learning rate 0.001, then 0.0005"
};

/// A schedule, and the rates of past steps with earlier schedules. A checkpoint stores the rates of
/// the steps that are powers of two and of the last step. A run may therefore be extended if its
/// schedule has the same rates at these steps.
class RateHistory {
 public:
  explicit RateHistory(optim::Schedule schedule);

  /// The rate of a future step; steps count from 1.
  double rate(int64_t step) const { return schedule_(step - 1); }
  const std::vector<ScheduleChange>& changes() const { return changes_; }
  /// Writes the part of the history that a checkpoint after `step` steps stores.
  void save(std::map<std::string, std::string>& metadata, int64_t step) const;
  /// The history of a run that continues with this schedule from the checkpoint at `path`. If the
  /// rates of past steps differ, this is recorded as a change if `new_schedule`; otherwise it is an
  /// error that reports both rates. Invalid metadata are an error.
  RateHistory resumed(const std::map<std::string, std::string>& metadata, int64_t step,
                      const std::string& path, bool new_schedule) const;

 private:
  using Rates = std::map<int64_t, double>;

  /// The rates that a checkpoint after `step` steps stores, by step.
  Rates rates(int64_t step) const;

  optim::Schedule schedule_;
  Rates before_;                         ///< of the steps up to the last change
  std::vector<ScheduleChange> changes_;  ///< in the order of their steps
};

}  // namespace vitrine::nn::training
