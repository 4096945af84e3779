#include "optim/lion.h"

#include "optim/step_elements.h"

namespace vitrine::optim {

Lion::Lion(std::vector<Parameter> parameters, LionOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lion", o.beta1, o.beta2);
}

void Lion::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t) {
    return formulas::Lion{group.lr, options_.beta1, options_.beta2, group.weight_decay};
  });
}

std::vector<Optimizer::StateSlot> Lion::slots(const Parameter& p) const { return {moment("moment1", p)}; }

}  // namespace vitrine::optim
