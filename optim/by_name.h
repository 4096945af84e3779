// Schedules by name, for command lines and configuration files. Optimizers by name are in
// optim/optimizers.h.
#pragma once

#include <string>

#include "optim/optimizers.h"
#include "optim/schedule.h"

namespace vitrine::optim {

/// `name` is constant, cosine, linear, inverse_sqrt, noam or cosine_times_warmup. The rate reaches
/// `peak` after `warmup` of `total` steps, and falls to `floor` if the schedule has a floor. noam
/// is scaled so that its maximum is `peak`. Steps count from 0.
Schedule make_schedule(const std::string& name, double peak, int64_t warmup, int64_t total, double floor);
std::string schedule_names();  ///< in the form of optimizer_names()
/// Whether the schedule falls to the `floor` of make_schedule.
bool has_floor(const std::string& schedule);

}  // namespace vitrine::optim
