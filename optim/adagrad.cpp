#include "optim/adagrad.h"

#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {

Adagrad::Adagrad(std::vector<Parameter> parameters, AdagradOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  const auto check_setting = [](const char* name, double x) {
    check(x >= 0 && std::isfinite(x), "Adagrad: {} is {}, wanted a finite number of at least 0", name, x);
  };
  check_setting("eps", o.eps);
  check_setting("lr_decay", o.lr_decay);
  check_setting("initial_accumulator", o.initial_accumulator);
}

void Adagrad::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t t) {
    const double lr = group.lr / (1 + static_cast<double>(t - 1) * options_.lr_decay);
    return AdagradScalars{lr, options_.eps, group.weight_decay};
  });
  std::vector<Tensor> v = batch.slots("moment2");
  VITRINE_RUN(adagrad_step, batch.x, batch.copies, batch.g, v, s);
}

std::vector<Optimizer::StateSlot> Adagrad::slots(const Shape& shape) const {
  return {{"moment2", shape, options_.initial_accumulator}};
}

}  // namespace vitrine::optim
