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
  std::vector<StateSlot> result = {mean("moment2", p)};
  if (options_.centered) result.push_back(mean("moment1", p));
  if (options_.momentum > 0) result.push_back(mean("momentum", p));
  return result;
}

}  // namespace vitrine::optim
