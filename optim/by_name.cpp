#include "optim/by_name.h"

#include <cmath>

namespace vitrine::optim {
namespace {

const char* const kSchedules[] = {"constant",     "cosine", "linear",
                                  "inverse_sqrt", "noam",   "cosine_times_warmup"};

}  // namespace

std::string schedule_names() { return fmt::format("{}", fmt::join(kSchedules, ", ")); }

bool has_floor(const std::string& schedule) { return schedule == "cosine" || schedule == "linear"; }

Schedule make_schedule(const std::string& name, double peak, int64_t warmup, int64_t total, double floor) {
  check(peak >= 0 && floor >= 0, "{}: wanted learning rates of at least 0, got {} and {}", name, peak, floor);
  if (name == "constant") return constant(peak);
  if (name == "cosine") return warmup_cosine(peak, warmup, total, floor);
  if (name == "linear") return warmup_linear(peak, warmup, total, floor);
  if (name == "inverse_sqrt") return inverse_sqrt(peak, warmup);
  if (name == "cosine_times_warmup") return cosine_times_warmup(peak, warmup, total);
  check(name == "noam", "there is no schedule {}: wanted {}", name, schedule_names());
  const Schedule counted_from_1 = noam(1, warmup, peak * std::sqrt(static_cast<double>(warmup)));
  return [counted_from_1](int64_t step) { return counted_from_1(step + 1); };
}

}  // namespace vitrine::optim
