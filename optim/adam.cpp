#include "optim/adam.h"

#include <cmath>

#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

/// What Adam, NAdam and RAdam share of a step's numbers.
template <class Options>
AdamScalars scalars(const Options& o, const GroupOptions& group) {
  AdamScalars s{group.lr, o.beta1, o.beta2, o.eps};
  (o.decay == Decay::coupled ? s.coupled_decay : s.decoupled_decay) = group.weight_decay;
  return s;
}

double correction(double beta, int64_t t) { return 1 / (1 - std::pow(beta, t)); }

}  // namespace

Adam::Adam(std::vector<Parameter> parameters, AdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adam", o.beta1, o.beta2, o.eps);
}

void Adam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t t) {
    AdamScalars result = scalars(options_, group);
    if (options_.bias_correction)
      result.m_factor = correction(result.beta1, t), result.v_factor = correction(result.beta2, t);
    return result;
  });
  std::vector<Tensor> m = batch.slots("moment1"), v = batch.slots("moment2"), largest;
  if (options_.amsgrad) largest = batch.slots("largest");
  VITRINE_RUN(adam_step, batch.x, batch.copies, batch.g, m, v, largest, s);
}

std::vector<Optimizer::StateSlot> Adam::slots(const Shape& shape) const {
  std::vector<StateSlot> result = {{"moment1", shape}, {"moment2", shape}};
  if (options_.amsgrad) result.push_back({"largest", shape});
  return result;
}

NAdam::NAdam(std::vector<Parameter> parameters, NAdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("NAdam", o.beta1, o.beta2, o.eps);
  check(o.momentum_decay >= 0 && std::isfinite(o.momentum_decay),
        "NAdam: momentum_decay is {}, wanted a finite number of at least 0", o.momentum_decay);
}

double NAdam::mu(int64_t t) const {
  return options_.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options_.momentum_decay));
}

/// Πμ up to step t. Once it is below 1e-17, 1 − Πμ rounds to 1, so that 0 serves as well.
double NAdam::product(int64_t t) {
  while (std::ssize(products_) <= t && products_.back() > 1e-17)
    products_.push_back(products_.back() * mu(std::ssize(products_)));
  return t < std::ssize(products_) ? products_[static_cast<size_t>(t)] : 0;
}

AdamScalars NAdam::scalars_of(const GroupOptions& group, int64_t t) {
  AdamScalars s = scalars(options_, group);
  s.v_factor = correction(s.beta2, t);
  switch (options_.nesterov) {
    case Nesterov::dozat:
      s.m_factor = mu(t + 1) / (1 - product(t) * mu(t + 1));
      s.g_factor = (1 - mu(t)) / (1 - product(t));
      break;
    case Nesterov::simple:
      s.m_factor = s.beta1 * correction(s.beta1, t);
      s.g_factor = (1 - s.beta1) * correction(s.beta1, t);
      break;
    case Nesterov::optax:
      s.m_factor = s.beta1 * correction(s.beta1, t + 1);
      s.g_factor = (1 - s.beta1) * correction(s.beta1, t);
      break;
  }
  return s;
}

void NAdam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s =
      numbers(batch, [this](const GroupOptions& group, int64_t t) { return scalars_of(group, t); });
  std::vector<Tensor> m = batch.slots("moment1"), v = batch.slots("moment2"), none;
  VITRINE_RUN(adam_step, batch.x, batch.copies, batch.g, m, v, none, s);
}

std::vector<Optimizer::StateSlot> NAdam::slots(const Shape& shape) const {
  return {{"moment1", shape}, {"moment2", shape}};
}

RAdam::RAdam(std::vector<Parameter> parameters, RAdamOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("RAdam", o.beta1, o.beta2, o.eps);
}

AdamScalars RAdam::scalars_of(const GroupOptions& group, int64_t t) {
  AdamScalars s = scalars(options_, group);
  const double power = std::pow(s.beta2, t), limit = 2 / (1 - s.beta2) - 1;
  const double rho = limit - 2 * static_cast<double>(t) * power / (1 - power);
  s.m_factor = correction(s.beta1, t);
  s.v_factor = 0;  // no denominator while the variance of the adaptive rate is unbounded
  if (rho > 5) {
    // eps is added to √v before the bias is corrected.
    const double rectification = std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
    s.m_factor *= rectification * std::sqrt(1 - power);
    s.v_factor = 1;
  }
  return s;
}

void RAdam::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s =
      numbers(batch, [this](const GroupOptions& group, int64_t t) { return scalars_of(group, t); });
  std::vector<Tensor> m = batch.slots("moment1"), v = batch.slots("moment2"), none;
  VITRINE_RUN(adam_step, batch.x, batch.copies, batch.g, m, v, none, s);
}

std::vector<Optimizer::StateSlot> RAdam::slots(const Shape& shape) const {
  return {{"moment1", shape}, {"moment2", shape}};
}

}  // namespace vitrine::optim
