#include "optim/rmsprop.h"

#include "core/creation.h"
#include "core/kernels.h"
#include "ops/elementwise.h"

namespace vitrine::optim {

Rmsprop::Rmsprop(std::vector<Parameter> parameters, RmspropOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Rmsprop", 0, o.beta2, o.eps);
  check(o.momentum >= 0, "Rmsprop: the momentum is {}, wanted at least 0", o.momentum);
}

void Rmsprop::update(Batch& batch, const GroupOptions& group, int64_t) {
  for (size_t i = 0; i < batch.x.size(); ++i) {
    Tensor& x = batch.x[i];
    State& state = *batch.states[i];
    const Tensor g = batch.g[i] + group.weight_decay * x;
    Tensor v = average(state["moment2"], square(g), options_.beta2);
    // Rounding can bring the variance below 0.
    if (options_.centered) v = maximum(v - square(average(state["moment1"], g, options_.beta2)), 0);
    Tensor u = g / (sqrt(v) + options_.eps);
    if (options_.momentum > 0) {
      Tensor& buffer = state["momentum"];
      u = buffer = buffer.defined() ? options_.momentum * buffer + u : u;
    }
    VITRINE_RUN(copy, x, x - group.lr * u);
  }
}

std::vector<Optimizer::Slot> Rmsprop::slots(const Shape& shape) const {
  std::vector<Slot> result = {{"moment2", shape}};
  if (options_.centered) result.push_back({"moment1", shape});
  if (options_.momentum > 0) result.push_back({"momentum", shape});
  return result;
}

}  // namespace vitrine::optim
