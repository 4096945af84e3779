#include "optim/rmsprop.h"

#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {

Rmsprop::Rmsprop(std::vector<Parameter> parameters, RmspropOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Rmsprop", 0, o.beta2, o.eps);
  check(o.momentum >= 0 && std::isfinite(o.momentum),
        "Rmsprop: the momentum is {}, wanted a finite number of at least 0", o.momentum);
}

void Rmsprop::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t) {
    return RmspropScalars{group.lr, options_.beta2, options_.eps, options_.momentum, group.weight_decay};
  });
  std::vector<Tensor> v = batch.slots("moment2"), m, buffer;
  if (options_.centered) m = batch.slots("moment1");
  if (options_.momentum > 0) buffer = batch.slots("momentum");
  VITRINE_RUN(rmsprop_step, batch.x, batch.copies, batch.g, v, m, buffer, s);
}

std::vector<Optimizer::StateSlot> Rmsprop::slots(const Shape& shape) const {
  std::vector<StateSlot> result = {{"moment2", shape}};
  if (options_.centered) result.push_back({"moment1", shape});
  if (options_.momentum > 0) result.push_back({"momentum", shape});
  return result;
}

}  // namespace vitrine::optim
