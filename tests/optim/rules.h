// Every optimizer, for tests that hold of all of them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizers.h"

namespace vitrine::test {

using MakeOptimizer = std::unique_ptr<optim::Optimizer> (*)(std::vector<Parameter>);

/// Every rule, with all the state that it can have.
inline std::vector<std::pair<std::string, MakeOptimizer>> optimizer_rules() {
  using namespace optim;
  using Made = std::unique_ptr<Optimizer>;
  using Parameters = std::vector<Parameter>;
  return {
      {"Sgd",
       [](Parameters p) -> Made {
         return std::make_unique<Sgd>(p, SgdOptions{.lr = 1e-2, .momentum = 0.5});
       }},
      {"Adam",
       [](Parameters p) -> Made {
         return std::make_unique<Adam>(
             p, AdamOptions{.weight_decay = 0.1, .decay = Decay::decoupled, .amsgrad = true});
       }},
      {"NAdam", [](Parameters p) -> Made { return std::make_unique<NAdam>(p); }},
      {"RAdam", [](Parameters p) -> Made { return std::make_unique<RAdam>(p); }},
      {"Lamb", [](Parameters p) -> Made { return std::make_unique<Lamb>(p); }},
      {"Lion", [](Parameters p) -> Made { return std::make_unique<Lion>(p); }},
      {"Adafactor",
       [](Parameters p) -> Made {
         return std::make_unique<Adafactor>(p, AdafactorOptions{.lr = 1, .beta1 = 0.9});
       }},
      {"Adafactor, fixed steps",
       [](Parameters p) -> Made {
         return std::make_unique<Adafactor>(
             p, AdafactorOptions{.relative_step = false, .scale_parameter = false});
       }},
      {"Rmsprop",
       [](Parameters p) -> Made {
         return std::make_unique<Rmsprop>(p, RmspropOptions{.momentum = 0.5, .centered = true});
       }},
      {"Adagrad",
       [](Parameters p) -> Made { return std::make_unique<Adagrad>(p, AdagradOptions{.lr_decay = 0.1}); }},
      {"Adadelta", [](Parameters p) -> Made { return std::make_unique<Adadelta>(p); }}};
}

}  // namespace vitrine::test
