// All optimizers, and the table by which programs find them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamax.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/optimizer.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace vitrine::optim {

/// What rules have in common; each takes of it what it knows and its own defaults for the rest.
struct CommonOptions {
  double lr = 1e-3;                   ///< ≥ 0
  double beta1 = 0.9, beta2 = 0.999;  ///< [0, 1)
  double weight_decay = 0;            ///< ≥ 0
  double momentum = 0.9;              ///< ≥ 0; of sgd and rmsprop
  bool nesterov = false;              ///< of sgd; for another rule it is an error
};

/// A line of the table of optimizers.
///
///   optim::register_optimizer(
///       {.name = "halving", .help = "half of x",
///        .make = [](auto p, auto& o) { return std::make_unique<Halving>(p, o.lr); }});
struct OptimizerRow {
  std::string name;
  std::string help = {};
  std::string source = {};  ///< the paper
  /// Which of beta1, beta2, momentum and nesterov the rule reads. All read lr and weight_decay.
  std::vector<std::string> options = {};
  std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>, const CommonOptions&)> make = {};
};

/// Adds a row to the table. A name that is empty or taken, and an empty `make`, are errors.
void register_optimizer(OptimizerRow row);
/// The table: the library's rules, and the registered ones if they are asked for.
std::vector<const OptimizerRow*> optimizer_table(bool registered = true);
std::string optimizer_names();  ///< separated by commas, for help

/// The rule of that name; a name that no row has is an error that lists the names. A w at the end
/// of a name says that weights decay by themselves (decoupled).
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Parameter> parameters,
                                          const CommonOptions& options);
/// Whether the rule of that name reads beta1, beta2, momentum or nesterov.
bool has_option(const std::string& optimizer, std::string_view option);

}  // namespace vitrine::optim
