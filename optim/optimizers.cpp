#include "optim/optimizers.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

void check_betas(const char* name, double beta1, double beta2) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "{}: the betas are {} and {}, wanted [0, 1)",
        name, beta1, beta2);
}

double norm_of(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

AdamScalars scalars(const AdamOptions& o, const GroupOptions& group) {
  AdamScalars s{group.lr, o.beta1, o.beta2, o.eps};
  (o.decay == Decay::coupled ? s.coupled_decay : s.decoupled_decay) = group.weight_decay;
  return s;
}

}  // namespace

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
        "Sgd: Nesterov wants a momentum and no dampening");
}

void Sgd::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t) {
  const bool first = state.empty();
  Tensor none;
  Tensor& buffer = options_.momentum != 0 ? slot(state, "momentum", x) : none;
  VITRINE_RUN(sgd_step, x, g, buffer,
              SgdScalars{group.lr, options_.momentum, options_.dampening, group.weight_decay,
                         options_.nesterov, first});
}

Adam::Adam(std::vector<Parameter> parameters, AdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adam", o.beta1, o.beta2);
}

void Adam::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) {
  AdamScalars s = scalars(options_, group);
  if (options_.bias_correction) {
    s.m_factor = 1 / (1 - std::pow(s.beta1, t));
    s.v_factor = 1 / (1 - std::pow(s.beta2, t));
  }
  Tensor none;
  Tensor& largest = options_.amsgrad ? slot(state, "largest", x) : none;
  VITRINE_RUN(adam_step, x, g, slot(state, "moment1", x), slot(state, "moment2", x), largest, s);
}

NAdam::NAdam(std::vector<Parameter> parameters, AdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("NAdam", o.beta1, o.beta2);
  check(!o.amsgrad, "NAdam: amsgrad is Adam's");
}

void NAdam::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) {
  const auto mu = [&](int64_t step) {
    return options_.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * options_.momentum_decay));
  };
  double product = 1;  // Πμ up to t
  for (int64_t i = 1; i <= t; ++i) product *= mu(i);
  AdamScalars s = scalars(options_, group);
  s.m_factor = mu(t + 1) / (1 - product * mu(t + 1));
  s.g_factor = (1 - mu(t)) / (1 - product);
  s.v_factor = 1 / (1 - std::pow(s.beta2, t));
  Tensor none;
  VITRINE_RUN(adam_step, x, g, slot(state, "moment1", x), slot(state, "moment2", x), none, s);
}

RAdam::RAdam(std::vector<Parameter> parameters, AdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("RAdam", o.beta1, o.beta2);
  check(!o.amsgrad, "RAdam: amsgrad is Adam's");
}

void RAdam::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) {
  AdamScalars s = scalars(options_, group);
  const double power = std::pow(s.beta2, t), limit = 2 / (1 - s.beta2) - 1;
  const double rho = limit - 2 * static_cast<double>(t) * power / (1 - power);
  s.m_factor = 1 / (1 - std::pow(s.beta1, t));
  s.v_factor = 0;  // no denominator while the variance of the adaptive rate is unbounded
  if (rho > 5) {
    // eps is added to √v before the bias is corrected.
    const double rectification = std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
    s.m_factor *= rectification * std::sqrt(1 - power);
    s.v_factor = 1;
  }
  Tensor none;
  VITRINE_RUN(adam_step, x, g, slot(state, "moment1", x), slot(state, "moment2", x), none, s);
}

Lamb::Lamb(std::vector<Parameter> parameters, LambOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lamb", o.beta1, o.beta2);
}

void Lamb::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) {
  AdamScalars s{-1, options_.beta1, options_.beta2,
                options_.eps};  // Adam from 0 with rate −1: u without its decay
  s.m_factor = 1 / (1 - std::pow(s.beta1, t));
  s.v_factor = 1 / (1 - std::pow(s.beta2, t));
  Tensor u = zeros_like(x), none;
  VITRINE_RUN(adam_step, u, g, slot(state, "moment1", x), slot(state, "moment2", x), none, s);
  add_in_place(u, x, group.weight_decay);
  const double size = norm_of(x), step = norm_of(u);
  const double phi = std::clamp(size, options_.phi_min, options_.phi_max);
  add_in_place(x, u, -group.lr * (size > 0 && step > 0 ? phi / step : 1));
}

Lion::Lion(std::vector<Parameter> parameters, LionOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Lion", o.beta1, o.beta2);
}

void Lion::update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t) {
  VITRINE_RUN(lion_step, x, g, slot(state, "moment1", x), group.lr, options_.beta1, options_.beta2,
              group.weight_decay);
}

double clip_gradients(const std::vector<Parameter>& parameters, double max_norm) {
  check(max_norm > 0, "clip_gradients: the largest norm is {}, wanted more than 0", max_norm);
  double squares = 0;
  for (const Parameter& p : parameters)
    if (p.grad().defined()) squares += sum(square(p.grad())).item();
  const double norm = std::sqrt(squares), factor = max_norm / (norm + 1e-6);
  check(std::isfinite(norm), "clip_gradients: the norm of the gradients is {}", norm);
  if (factor < 1)
    for (const Parameter& p : parameters) {
      Tensor g = p.grad();
      if (g.defined()) scale_in_place(g, factor);
    }
  return norm;
}

}  // namespace vitrine::optim
