#include "nn/training/schedule_options.h"

#include <algorithm>

#include "optim/by_name.h"

namespace vitrine::nn::training {

void ScheduleOptions::list(OptionList& o) {
  o.group("Learning rate");
  o("schedule", name, optim::schedule_names()).decides(Role::schedule);
  o("lr", lr, "maximum learning rate").at_least(0).decides(Role::schedule);
  o("final-lr", final_lr, "learning rate at the end, for cosine and linear")
      .at_least(0)
      .decides(Role::schedule)
      .by_default("0.0001, or --lr if that is less")
      .unless([this] {
        return optim::has_floor(name)
                   ? ""
                   : fmt::format("the schedule {} has none; cosine and linear have one", name);
      });
  o("warmup", warmup, "warmup steps, at most half of all steps; at least one for noam and inverse_sqrt")
      .at_least(0)
      .decides(Role::schedule)
      .by_default("100")
      .unless([this] { return name == "constant" ? "the schedule constant has none" : ""; });
}

ScheduleOptions ScheduleOptions::resolved(int64_t steps) const {
  ScheduleOptions all = *this;
  const int64_t least = name == "noam" || name == "inverse_sqrt" ? 1 : 0;
  all.warmup = std::max(std::min(warmup.value_or(100), steps / 2), least);
  if (optim::has_floor(name)) all.final_lr = final_lr.value_or(std::min(1e-4, lr));
  return all;
}

optim::Schedule ScheduleOptions::schedule(int64_t steps) const {
  check_options(*this, "schedule");
  const ScheduleOptions all = resolved(steps);
  check(all.final_lr.value_or(0) <= lr, "final-lr is {}, above the lr of {}", all.final_lr.value_or(0), lr);
  return optim::make_schedule(name, lr, *all.warmup, steps, all.final_lr.value_or(0));
}

}  // namespace vitrine::nn::training
