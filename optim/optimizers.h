// All optimizers, and the table in which programs find them by name.
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
#include "optim/schedule_free.h"
#include "optim/sgd.h"
#include "optim/shampoo.h"
#include "optim/sophia.h"

namespace vitrine::optim {

/// Options that rules have in common. Each rule reads the options that it supports, and uses its
/// own defaults for the rest.
struct CommonOptions {
  double lr = 1e-3;                   ///< ≥ 0
  double beta1 = 0.9, beta2 = 0.999;  ///< [0, 1)
  double weight_decay = 0;            ///< ≥ 0
  double momentum = 0.9;              ///< ≥ 0; for sgd and rmsprop
  bool nesterov = false;              ///< for sgd; an error for other rules
  /// float32, or bfloat16 for rules whose states can be in 16 bits (Optimizer::set_moments)
  DType moments = DType::float32;
};

/// A row of the table of optimizers.
///
///   optim::register_optimizer(
///       {.name = "halving", .help = "half of x",
///        .make = [](auto p, auto& o) { return std::make_unique<Halving>(p, o.lr); }});
struct OptimizerRow {
  std::string name;
  std::string help = {};
  std::string source = {};  ///< the paper
  /// Which of beta1, beta2, momentum, nesterov and moments the rule reads. All read lr and
  /// weight_decay.
  std::vector<std::string> options = {};
  std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>, const CommonOptions&)> make = {};
};

/// Adds a row to the table. Errors: a name that is empty or already in the table, or an empty
/// `make`.
void register_optimizer(OptimizerRow row);
/// The table: the library's rules, and by default also the registered ones.
std::vector<const OptimizerRow*> optimizer_table(bool registered = true);
std::string optimizer_names();  ///< separated by commas, for help

/// Creates the rule with this name. An unknown name is an error that lists the names. A w at the
/// end of a name means decoupled weight decay.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Parameter> parameters,
                                          const CommonOptions& options);
/// Whether the rule with this name reads beta1, beta2, momentum, nesterov or moments.
bool has_option(const std::string& optimizer, std::string_view option);

}  // namespace vitrine::optim
