#include "optim/lamb.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "optim/kernels.h"

namespace vitrine::optim {

Lamb::Lamb(std::vector<Parameter> parameters, LambOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lamb", o.beta1, o.beta2, o.eps);
  check(o.phi_min >= 0 && o.phi_min <= o.phi_max, "Lamb: phi is to lie in [{}, {}], wanted 0 ≤ least ≤ most",
        o.phi_min, o.phi_max);
}

void Lamb::update(Batch& batch, const GroupOptions& group, int64_t t) {
  AdamScalars s{group.lr, options_.beta1, options_.beta2, options_.eps};
  s.m_factor = 1 / (1 - std::pow(s.beta1, t));
  s.v_factor = 1 / (1 - std::pow(s.beta2, t));
  s.decoupled_decay = group.weight_decay;
  std::vector<Tensor> m = batch.slots("moment1"), v = batch.slots("moment2");
  Tensor norms = empty({static_cast<int64_t>(batch.x.size()), 2}, DType::float64, batch.x[0].device());
  VITRINE_RUN(lamb_moments, norms, batch.x, batch.g, m, v, s);
  const std::vector<double> of = norms.values();
  std::vector<double> rates;
  for (size_t i = 0; i < batch.x.size(); ++i) {
    const double size = of[2 * i], step = of[2 * i + 1];
    const double phi = std::clamp(size, options_.phi_min, options_.phi_max);
    rates.push_back(group.lr * (size > 0 && step > 0 ? phi / step : 1));
  }
  VITRINE_RUN(lamb_step, batch.x, m, v, rates, s);
}

std::vector<Optimizer::Slot> Lamb::slots(const Shape& shape) const {
  return {{"moment1", shape}, {"moment2", shape}};
}

}  // namespace vitrine::optim
