#include "optim/adamax.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {

Adamax::Adamax(std::vector<Parameter> parameters, AdamaxOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adamax", o.beta1, o.beta2, o.eps);
}

void Adamax::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) {
    formulas::Adamax f{.rate = group.lr / (1 - std::pow(options_.beta1, t)),
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .eps = options_.eps};
    if (options_.decay == Decay::coupled)
      f.decay = group.weight_decay;
    else
      f.keep = 1 - group.lr * group.weight_decay;
    return f;
  });
}

std::vector<Optimizer::StateSlot> Adamax::slots(const Parameter& p) const {
  return {moment("moment1", p), {"infinity_norm", p.shape()}};
}

}  // namespace vitrine::optim
