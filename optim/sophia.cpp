#include "optim/sophia.h"

#include <cmath>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "optim/step_elements.h"

namespace vitrine::optim {

Sophia::Sophia(std::vector<Parameter> parameters, SophiaOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Sophia", o.beta1, o.beta2);
  check(o.gamma > 0 && std::isfinite(o.gamma), "Sophia: gamma is {}, wanted a finite number above 0",
        o.gamma);
  check(o.every >= 1, "Sophia: every is {}, wanted at least 1 step", o.every);
}

void Sophia::add_estimates(const std::vector<Parameter>& parameters, const std::vector<Tensor>& estimates) {
  check(parameters.size() == estimates.size(),
        "Sophia: {} estimates of the Hessian for {} parameters, wanted one each", estimates.size(),
        parameters.size());
  const Tape::Pause pause;
  for (size_t i = 0; i < parameters.size(); ++i)
    check(estimates[i].shape() == parameters[i].shape(),
          "Sophia: the estimate of {} is {}, wanted the shape {}",
          parameters[i].name().empty() ? "a parameter" : parameters[i].name(), describe(estimates[i]),
          parameters[i].shape());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor h = state(parameters[i], "hessian");
    set_state(parameters[i], "hessian",
              options_.beta2 * h + (1 - options_.beta2) * cast(estimates[i], h.dtype()));
  }
}

void Sophia::check_ready(const ParameterBatch& batch) const {
  check(!batch.first,
        "Sophia: there is no estimate of the Hessian yet: call add_estimates before the first step, and "
        "whenever needs_estimate() is true");
}

void Sophia::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  step_elements(batch, [this](const GroupOptions& group, int64_t) {
    return formulas::Sophia{
        .lr = group.lr, .beta1 = options_.beta1, .gamma = options_.gamma, .decay = group.weight_decay};
  });
}

std::vector<Optimizer::StateSlot> Sophia::slots(const Parameter& p) const {
  // add_estimates() moves the Hessian by set_state(), which rounds 16 bits to nearest.
  return {moment("moment1", p), {"hessian", p.shape()}};
}

}  // namespace vitrine::optim
