#include "optim/schedule_free.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {
namespace {

/// w_t²/Σ_{s ≤ t} w_s² with w_s = min(1, s/warmup), from sums of squares in closed form.
double average_weight(int64_t t, int64_t warmup) {
  const auto squares_up_to = [](double n) { return n * (n + 1) * (2 * n + 1) / 6; };
  const auto now = static_cast<double>(t), w = static_cast<double>(warmup);
  if (t <= warmup) return now * now / squares_up_to(now);
  return 1 / ((warmup > 0 ? squares_up_to(w) / (w * w) : 0) + now - w);
}

}  // namespace

ScheduleFreeAdamW::ScheduleFreeAdamW(std::vector<Parameter> parameters, ScheduleFreeOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("ScheduleFreeAdamW", o.beta1, o.beta2, o.eps);
  check(o.warmup >= 0, "ScheduleFreeAdamW: warmup is {}, wanted at least 0 steps", o.warmup);
}

void ScheduleFreeAdamW::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) {
    const double warm =
        t < options_.warmup ? static_cast<double>(t) / static_cast<double>(options_.warmup) : 1;
    return formulas::ScheduleFree{.lr = group.lr * warm,
                                  .beta1 = options_.beta1,
                                  .beta2 = options_.beta2,
                                  .eps = options_.eps,
                                  .decay = group.weight_decay,
                                  .v_factor = 1 / (1 - std::pow(options_.beta2, t)),
                                  .weight = average_weight(t, options_.warmup)};
  });
}

void ScheduleFreeAdamW::write_point(ParameterBatch& batch, Point point) {
  const Live<Step<formulas::ScheduleFreePoint>> step{
      {{.beta1 = options_.beta1, .evaluation = point == Point::evaluation}}};
  List states = batch.slots(formulas::ScheduleFreePoint::kStates);
  VITRINE_RUN_AS(formulas::ScheduleFreePoint::kName, update<formulas::ScheduleFreePoint>, batch.x,
                 batch.partners, batch.g, batch.factor, states, step);
}

std::vector<Optimizer::StateSlot> ScheduleFreeAdamW::slots(const Parameter& p) const {
  return {moment("moment2", p),
          {.name = "base", .shape = p.shape(), .from_parameter = true},
          {.name = "average", .shape = p.shape(), .from_parameter = true}};
}

}  // namespace vitrine::optim
