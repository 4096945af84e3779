// The learning rates of the steps that a run has made, by which a resumed run is the same run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optim/schedule.h"

namespace vitrine::nn::training {

/// A resumed run that went on with another schedule.
struct ScheduleChange {
  int64_t after_step = 0;   ///< the last step of the schedule before
  double from = 0, to = 0;  ///< the learning rates of that step and of the next one

  std::string text() const;  ///< "after step 100: learning rate 0.001, then 0.0005"
};

/// A schedule, and the rates of the steps before it where a resumed run has changed it. A
/// checkpoint keeps the rates at the powers of two and at the last step, so a run may be made
/// longer where that leaves these as they were.
class RateHistory {
 public:
  explicit RateHistory(optim::Schedule schedule);

  /// Of a step that is yet to be made; steps count from 1.
  double rate(int64_t step) const { return schedule_(step - 1); }
  const std::vector<ScheduleChange>& changes() const { return changes_; }
  /// Writes what a checkpoint after `step` steps keeps.
  void save(std::map<std::string, std::string>& metadata, int64_t step) const;
  /// The history of a run that goes on with this schedule from a checkpoint at `path`. Where the
  /// rates of the steps made differ, this is a change if `new_schedule`, else an error with both
  /// rates. Broken metadata are an error.
  RateHistory resumed(const std::map<std::string, std::string>& metadata, int64_t step,
                      const std::string& path, bool new_schedule) const;

 private:
  using Rates = std::map<int64_t, double>;

  /// The rates that a checkpoint after `step` steps keeps, by step.
  Rates rates(int64_t step) const;

  optim::Schedule schedule_;
  Rates before_;                         ///< of steps up to the last change
  std::vector<ScheduleChange> changes_;  ///< in the order of their steps
};

}  // namespace vitrine::nn::training
