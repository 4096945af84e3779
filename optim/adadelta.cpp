#include "optim/adadelta.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {

Adadelta::Adadelta(std::vector<Parameter> parameters, AdadeltaOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.rho >= 0 && o.rho < 1 && o.eps > 0 && std::isfinite(o.eps),
        "Adadelta: rho is {} and eps {}, wanted [0, 1) and a finite number above 0", o.rho, o.eps);
}

void Adadelta::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t) {
    return formulas::Adadelta{group.lr, options_.rho, options_.eps, group.weight_decay};
  });
}

std::vector<Optimizer::StateSlot> Adadelta::slots(const Parameter& p) const {
  return {moment("moment2", p), moment("steps", p)};
}

}  // namespace vitrine::optim
