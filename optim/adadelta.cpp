#include "optim/adadelta.h"

#include "core/creation.h"
#include "core/kernels.h"
#include "ops/elementwise.h"

namespace vitrine::optim {

Adadelta::Adadelta(std::vector<Parameter> parameters, AdadeltaOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.rho >= 0 && o.rho < 1 && o.eps > 0, "Adadelta: rho is {} and eps {}, wanted [0, 1) and more than 0",
        o.rho, o.eps);
}

void Adadelta::update(Batch& batch, const GroupOptions& group, int64_t) {
  std::vector<Tensor> steps = batch.slots("steps");
  for (size_t i = 0; i < batch.x.size(); ++i) {
    Tensor& x = batch.x[i];
    const Tensor g = batch.g[i] + group.weight_decay * x;
    const Tensor& v = average((*batch.states[i])["moment2"], square(g), options_.rho);
    const Tensor u = sqrt(steps[i] + options_.eps) * rsqrt(v + options_.eps) * g;
    average((*batch.states[i])["steps"], square(u), options_.rho);
    VITRINE_RUN(copy, x, x - group.lr * u);
  }
}

std::vector<Optimizer::Slot> Adadelta::slots(const Shape& shape) const {
  return {{"moment2", shape}, {"steps", shape}};
}

}  // namespace vitrine::optim
