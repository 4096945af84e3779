// Schedules by name, for command lines and configuration files; optimizers by name are in
// optim/optimizers.h.
#pragma once

#include <string>

#include "optim/optimizers.h"
#include "optim/schedule.h"

namespace vitrine::optim {

/// constant, cosine, linear, inverse_sqrt, noam or cosine_times_warmup: `peak` after `warmup` steps
/// of `total`, down to `floor` where the schedule has one. noam is scaled so that its peak is
/// `peak`. Steps count from 0.
Schedule make_schedule(const std::string& name, double peak, int64_t warmup, int64_t total, double floor);
std::string schedule_names();  ///< as optimizer_names()
/// Whether it falls to a rate that make_schedule is given.
bool has_floor(const std::string& schedule);

}  // namespace vitrine::optim
