#include "optim/adam.h"

#include <cmath>

#include "optim/step_elements.h"

namespace vitrine::optim {
namespace {

/// The numbers of a step that Adam, NAdam and RAdam share.
template <class Options>
formulas::Adam formula_of(const Options& o, const GroupOptions& group) {
  formulas::Adam f{.lr = group.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
  (o.decay == Decay::coupled ? f.coupled_decay : f.decoupled_decay) = group.weight_decay;
  return f;
}

double correction(double beta, int64_t t) { return 1 / (1 - std::pow(beta, t)); }

}  // namespace

Adam::Adam(std::vector<Parameter> parameters, AdamOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adam", o.beta1, o.beta2, o.eps);
}

void Adam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) {
    formulas::Adam f = formula_of(options_, group);
    if (options_.bias_correction) f.m_factor = correction(f.beta1, t), f.v_factor = correction(f.beta2, t);
    f.amsgrad = options_.amsgrad;
    return f;
  });
}

std::vector<Optimizer::StateSlot> Adam::slots(const Parameter& p) const {
  std::vector<StateSlot> result = {moment("moment1", p), moment("moment2", p)};
  if (options_.amsgrad) result.push_back({"largest", p.shape()});
  return result;
}

NAdam::NAdam(std::vector<Parameter> parameters, NAdamOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("NAdam", o.beta1, o.beta2, o.eps);
  check(o.momentum_decay >= 0 && std::isfinite(o.momentum_decay),
        "NAdam: momentum_decay is {}, wanted a finite number of at least 0", o.momentum_decay);
}

double NAdam::mu(int64_t t) const {
  return options_.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options_.momentum_decay));
}

/// Πμ up to step t. Below 1e-17 it is replaced by 0, because 1 − Πμ then rounds to 1.
double NAdam::product(int64_t t) {
  while (std::ssize(products_) <= t && products_.back() > 1e-17)
    products_.push_back(products_.back() * mu(std::ssize(products_)));
  return t < std::ssize(products_) ? products_[static_cast<size_t>(t)] : 0;
}

formulas::Adam NAdam::formula(const GroupOptions& group, int64_t t) {
  formulas::Adam f = formula_of(options_, group);
  f.v_factor = correction(f.beta2, t);
  switch (options_.nesterov) {
    case Nesterov::dozat:
      f.m_factor = mu(t + 1) / (1 - product(t) * mu(t + 1));
      f.g_factor = (1 - mu(t)) / (1 - product(t));
      break;
    case Nesterov::simple:
      f.m_factor = f.beta1 * correction(f.beta1, t);
      f.g_factor = (1 - f.beta1) * correction(f.beta1, t);
      break;
    case Nesterov::optax:
      f.m_factor = f.beta1 * correction(f.beta1, t + 1);
      f.g_factor = (1 - f.beta1) * correction(f.beta1, t);
      break;
  }
  return f;
}

void NAdam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) { return formula(group, t); });
}

std::vector<Optimizer::StateSlot> NAdam::slots(const Parameter& p) const {
  return {moment("moment1", p), moment("moment2", p)};
}

RAdam::RAdam(std::vector<Parameter> parameters, RAdamOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("RAdam", o.beta1, o.beta2, o.eps);
}

formulas::Adam RAdam::formula(const GroupOptions& group, int64_t t) {
  formulas::Adam f = formula_of(options_, group);
  const double power = std::pow(f.beta2, t), limit = 2 / (1 - f.beta2) - 1;
  const double rho = limit - 2 * static_cast<double>(t) * power / (1 - power);
  f.m_factor = correction(f.beta1, t);
  f.adaptive = rho > 5;  // otherwise the variance of the adaptive rate is unbounded
  if (f.adaptive) {
    // eps is added to √v before the bias correction.
    const double rectification = std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
    f.m_factor *= rectification * std::sqrt(1 - power);
  }
  return f;
}

void RAdam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) { return formula(group, t); });
}

std::vector<Optimizer::StateSlot> RAdam::slots(const Parameter& p) const {
  return {moment("moment1", p), moment("moment2", p)};
}

}  // namespace vitrine::optim
