#include "optim/lion.h"

#include "optim/kernels.h"

namespace vitrine::optim {

Lion::Lion(std::vector<Parameter> parameters, LionOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lion", o.beta1, o.beta2);
}

void Lion::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  std::vector<Tensor> m = batch.slots("moment1");
  const auto scalars = numbers(batch, [this](const GroupOptions& group, int64_t) {
    return LionScalars{group.lr, options_.beta1, options_.beta2, group.weight_decay};
  });
  VITRINE_RUN(lion_step, batch.x, batch.copies, batch.g, m, scalars);
}

std::vector<Optimizer::StateSlot> Lion::slots(const Shape& shape) const { return {{"moment1", shape}}; }

}  // namespace vitrine::optim
