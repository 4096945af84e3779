#include "optim/adadelta.h"

#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {

Adadelta::Adadelta(std::vector<Parameter> parameters, AdadeltaOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.rho >= 0 && o.rho < 1 && o.eps > 0 && std::isfinite(o.eps),
        "Adadelta: rho is {} and eps {}, wanted [0, 1) and a finite number above 0", o.rho, o.eps);
}

void Adadelta::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t) {
    return AdadeltaScalars{group.lr, options_.rho, options_.eps, group.weight_decay};
  });
  std::vector<Tensor> v = batch.slots("moment2"), steps = batch.slots("steps");
  VITRINE_RUN(adadelta_step, batch.x, batch.copies, batch.g, v, steps, s);
}

std::vector<Optimizer::StateSlot> Adadelta::slots(const Shape& shape) const {
  return {{"moment2", shape}, {"steps", shape}};
}

}  // namespace vitrine::optim
