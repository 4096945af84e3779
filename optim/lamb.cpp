#include "optim/lamb.h"

#include <algorithm>
#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {

Lamb::Lamb(std::vector<Parameter> parameters, LambOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lamb", o.beta1, o.beta2, o.eps);
  check(o.phi_min >= 0 && o.phi_min <= o.phi_max && std::isfinite(o.phi_min),
        "Lamb: phi is to lie in [{}, {}], wanted 0 ≤ least ≤ most", o.phi_min, o.phi_max);
}

void Lamb::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t t) {
    return formulas::Lamb{.lr = group.lr,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .decay = group.weight_decay,
                          .m_factor = 1 / (1 - std::pow(options_.beta1, t)),
                          .v_factor = 1 / (1 - std::pow(options_.beta2, t)),
                          .phi_min = options_.phi_min,
                          .phi_max = options_.phi_max};
  });
  std::vector<Tensor> m = batch.slots("moment1"), v = batch.slots("moment2");
  VITRINE_RUN(lamb_step, batch.x, batch.partners, batch.g, batch.factor, m, v, s);
}

std::vector<Optimizer::StateSlot> Lamb::slots(const Parameter& p) const {
  return {{"moment1", p.shape()}, {"moment2", p.shape()}};
}

}  // namespace vitrine::optim
