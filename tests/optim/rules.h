// Every optimizer, for tests that apply to all of them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/halves.h"
#include "core/random.h"
#include "optim/optimizers.h"

namespace vitrine::test {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Parameter>)>;

template <class R, class Options>
MakeOptimizer maker(const Options& o) {
  return [o](std::vector<Parameter> p) { return std::make_unique<R>(std::move(p), o); };
}

/// Gives the optimizer estimates of the Hessian, all 1,000, if its next step needs them.
inline void give_estimates(optim::Optimizer& optimizer, const std::vector<Parameter>& parameters) {
  if (!optimizer.needs_estimate()) return;
  std::vector<Tensor> estimates;
  for (const Parameter& p : parameters) estimates.push_back(full_like(p.master(), 1000));
  optimizer.add_estimates(parameters, estimates);
}

/// Sets the gradient of step t: standard normal, the same for the same t.
inline void set_gradient(const Parameter& p, uint64_t t) {
  Generator generator(100 + t);
  p.master().set_grad(randn(p.shape(), DType::float32, Device::cpu, 0, 1, generator));
}

/// The library's rules by name, and rules with options that a name cannot select, with all their
/// states. Rules that need estimates of the Hessian have tests of their own.
inline std::vector<std::pair<std::string, MakeOptimizer>> optimizer_rules(
    const optim::CommonOptions& common = {}) {
  using namespace optim;
  std::vector<std::pair<std::string, MakeOptimizer>> rules;
  for (const OptimizerRow* row : optimizer_table(false)) {
    if (row->make({Parameter(Tensor(1.0))}, common)->needs_estimate()) continue;
    rules.emplace_back(row->name,
                       [row, common](std::vector<Parameter> p) { return row->make(std::move(p), common); });
  }
  const double lr = common.lr, decay = common.weight_decay;
  rules.insert(
      rules.end(),
      {{"sgd, plain", maker<Sgd>(SgdOptions{.lr = lr, .weight_decay = decay})},
       {"sgd, nesterov",
        maker<Sgd>(SgdOptions{.lr = lr, .momentum = 0.5, .weight_decay = decay, .nesterov = true})},
       {"adamw, amsgrad",
        maker<Adam>(AdamOptions{.lr = lr, .weight_decay = 0.1, .decay = Decay::decoupled, .amsgrad = true})},
       {"adafactor, relative steps and a first moment",
        maker<Adafactor>(AdafactorOptions{.lr = 1, .beta1 = 0.9, .weight_decay = decay})},
       {"adafactor, clipped",
        maker<Adafactor>(AdafactorOptions{
            .lr = lr, .scale_parameter = false, .beta1 = 0.9, .weight_decay = decay, .clip = 0.5})},
       {"shampoo, one side at most",
        maker<Shampoo>(ShampooOptions{.lr = lr, .weight_decay = decay, .largest = 2})},
       {"schedule-free, warmed up",
        maker<ScheduleFreeAdamW>(ScheduleFreeOptions{.lr = lr, .weight_decay = decay, .warmup = 3})},
       {"rmsprop, centered",
        maker<Rmsprop>(RmspropOptions{.lr = lr, .weight_decay = decay, .momentum = 0.5, .centered = true})},
       {"adagrad, falling rate",
        maker<Adagrad>(AdagradOptions{.lr = lr, .weight_decay = decay, .lr_decay = 0.1})},
       {"adadelta, its own rate", maker<Adadelta>(AdadeltaOptions{.weight_decay = decay})}});
  // Rules with one, two and three states, of which amsgrad's `largest`, the means of a centered
  // RMSprop, and the weights of a rule that averages are no moments.
  for (const char* name :
       {"sgd", "adamw", "adamw, amsgrad", "rmsprop, centered", "muon", "schedule-free, warmed up"}) {
    const MakeOptimizer make =
        std::ranges::find(rules, name, &std::pair<std::string, MakeOptimizer>::first)->second;
    rules.emplace_back(std::string(name) + ", moments in bfloat16", [make](std::vector<Parameter> p) {
      auto optimizer = make(std::move(p));
      optimizer->set_moments(DType::bfloat16);
      return optimizer;
    });
  }
  return rules;
}

/// The 16-bit copy that a parameter's master should have: in bfloat16 ties are rounded away from 0
/// (core/halves.h).
inline Tensor copy_of(const Parameter& p) {
  const Tensor master = p.master();
  if (p.dtype() != DType::bfloat16) return copy_as(master, p.dtype());
  std::vector<double> high;
  for (const double x : master.values()) high.push_back(Halves(static_cast<float>(x)).high);
  return tensor(high, p.shape(), DType::bfloat16);
}

}  // namespace vitrine::test
