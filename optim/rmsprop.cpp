#include "optim/rmsprop.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {

Rmsprop::Rmsprop(std::vector<Parameter> parameters, RmspropOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Rmsprop", 0, o.beta2, o.eps);
  check(o.momentum >= 0 && std::isfinite(o.momentum),
        "Rmsprop: the momentum is {}, wanted a finite number of at least 0", o.momentum);
}

void Rmsprop::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t) {
    return formulas::Rmsprop{.lr = group.lr,
                             .beta2 = options_.beta2,
                             .eps = options_.eps,
                             .momentum = options_.momentum,
                             .decay = group.weight_decay,
                             .centered = options_.centered};
  });
}

std::vector<Optimizer::StateSlot> Rmsprop::slots(const Parameter& p) const {
  // v − m² cancels where the variance is small, so rounding must not move either of them.
  std::vector<StateSlot> result = {options_.centered ? StateSlot{"moment2", p.shape()}
                                                     : moment("moment2", p)};
  if (options_.centered) result.push_back({"moment1", p.shape()});
  if (options_.momentum > 0) result.push_back(moment("momentum", p));
  return result;
}

}  // namespace vitrine::optim
