// Every optimizer, for tests that apply to all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizers.h"

namespace vitrine::test {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Parameter>)>;

template <class R, class Options>
MakeOptimizer maker(const Options& o) {
  return [o](std::vector<Parameter> p) { return std::make_unique<R>(std::move(p), o); };
}

/// The library's rules by name, and rules with options that a name cannot select, with all their
/// states.
inline std::vector<std::pair<std::string, MakeOptimizer>> optimizer_rules(
    const optim::CommonOptions& common = {}) {
  using namespace optim;
  std::vector<std::pair<std::string, MakeOptimizer>> rules;
  for (const OptimizerRow* row : optimizer_table(false))
    rules.emplace_back(row->name,
                       [row, common](std::vector<Parameter> p) { return row->make(std::move(p), common); });
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
       {"rmsprop, centered",
        maker<Rmsprop>(RmspropOptions{.lr = lr, .weight_decay = decay, .momentum = 0.5, .centered = true})},
       {"adagrad, falling rate",
        maker<Adagrad>(AdagradOptions{.lr = lr, .weight_decay = decay, .lr_decay = 0.1})},
       {"adadelta, its own rate", maker<Adadelta>(AdadeltaOptions{.weight_decay = decay})}});
  return rules;
}

}  // namespace vitrine::test
