#include "optim/sgd.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.momentum >= 0 && std::isfinite(o.momentum),
        "Sgd: the momentum is {}, wanted a finite number of at least 0", o.momentum);
  check(o.dampening >= 0 && o.dampening <= 1, "Sgd: the dampening is {}, wanted [0, 1]", o.dampening);
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
        "Sgd: Nesterov wants a momentum and no dampening, got {} and {}", o.momentum, o.dampening);
}

void Sgd::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this, first = batch.first](const GroupOptions& group, int64_t) {
    return formulas::Sgd{.lr = group.lr,
                         .momentum = options_.momentum,
                         .dampening = options_.dampening,
                         .decay = group.weight_decay,
                         .nesterov = options_.nesterov,
                         .first = first};
  });
}

std::vector<Optimizer::StateSlot> Sgd::slots(const Parameter& p) const {
  if (options_.momentum == 0) return {};
  return {moment("momentum", p)};
}

}  // namespace vitrine::optim
