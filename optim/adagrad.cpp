#include "optim/adagrad.h"

#include "optim/kernels.h"

namespace vitrine::optim {

Adagrad::Adagrad(std::vector<Parameter> parameters, AdagradOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.eps >= 0 && o.lr_decay >= 0, "Adagrad: eps is {} and lr_decay {}, wanted at least 0", o.eps,
        o.lr_decay);
}

void Adagrad::update(Batch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t t) {
    const double lr = group.lr / (1 + static_cast<double>(t - 1) * options_.lr_decay);
    return AdagradScalars{lr, in_denominator(options_.eps), group.weight_decay};
  });
  std::vector<Tensor> v = batch.slots("moment2");
  VITRINE_RUN(adagrad_step, batch.x, batch.copies, batch.g, v, s);
}

std::vector<Optimizer::Slot> Adagrad::slots(const Shape& shape) const { return {{"moment2", shape}}; }

}  // namespace vitrine::optim
