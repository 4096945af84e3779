#include "optim/adagrad.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {

Adagrad::Adagrad(std::vector<Parameter> parameters, AdagradOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  const auto check_setting = [](const char* name, double x) {
    check(x >= 0 && std::isfinite(x), "Adagrad: {} is {}, wanted a finite number of at least 0", name, x);
  };
  check_setting("eps", o.eps);
  check_setting("lr_decay", o.lr_decay);
  check_setting("initial_accumulator", o.initial_accumulator);
}

void Adagrad::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) {
    const double lr = group.lr / (1 + static_cast<double>(t - 1) * options_.lr_decay);
    return formulas::Adagrad{lr, options_.eps, group.weight_decay};
  });
}

std::vector<Optimizer::StateSlot> Adagrad::slots(const Parameter& p) const {
  return {{"moment2", p.shape(), options_.initial_accumulator}};
}

}  // namespace vitrine::optim
