#include "optim/adagrad.h"

#include "core/creation.h"
#include "core/kernels.h"
#include "ops/elementwise.h"

namespace vitrine::optim {

Adagrad::Adagrad(std::vector<Parameter> parameters, AdagradOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.eps >= 0 && o.lr_decay >= 0, "Adagrad: eps is {} and lr_decay {}, wanted at least 0", o.eps,
        o.lr_decay);
}

void Adagrad::update(Batch& batch, const GroupOptions& group, int64_t t) {
  const double lr = group.lr / (1 + static_cast<double>(t - 1) * options_.lr_decay);
  std::vector<Tensor> v = batch.slots("moment2");
  for (size_t i = 0; i < batch.x.size(); ++i) {
    Tensor& x = batch.x[i];
    const Tensor g = batch.g[i] + group.weight_decay * x;
    VITRINE_RUN(copy, v[i], v[i] + square(g));
    VITRINE_RUN(copy, x, x - lr * g / (sqrt(v[i]) + options_.eps));
  }
}

std::vector<Optimizer::Slot> Adagrad::slots(const Shape& shape) const { return {{"moment2", shape}}; }

}  // namespace vitrine::optim
