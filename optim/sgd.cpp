#include "optim/sgd.h"

#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.momentum >= 0 && std::isfinite(o.momentum),
        "Sgd: the momentum is {}, wanted a finite number of at least 0", o.momentum);
  check(o.dampening >= 0 && o.dampening <= 1, "Sgd: the dampening is {}, wanted [0, 1]", o.dampening);
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
        "Sgd: Nesterov wants a momentum and no dampening, got {} and {}", o.momentum, o.dampening);
}

void Sgd::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto scalars = numbers(batch, [this](const GroupOptions& group, int64_t) {
    return SgdScalars{group.lr, options_.momentum, options_.dampening, group.weight_decay, options_.nesterov};
  });
  std::vector<Tensor> buffers;
  if (options_.momentum != 0) buffers = batch.slots("momentum");
  VITRINE_RUN(sgd_step, batch.x, batch.copies, batch.g, buffers, batch.first, scalars);
}

std::vector<Optimizer::StateSlot> Sgd::slots(const Shape& shape) const {
  if (options_.momentum == 0) return {};
  return {{"momentum", shape}};
}

}  // namespace vitrine::optim
