// Optimizers and schedules by name, for command lines and configuration files.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace vitrine::optim {

/// What rules have in common; each takes of it what it knows and its own defaults for the rest.
struct CommonOptions {
  double lr = 1e-3;                   ///< ≥ 0
  double beta1 = 0.9, beta2 = 0.999;  ///< [0, 1)
  double weight_decay = 0;            ///< ≥ 0
  double momentum = 0.9;              ///< ≥ 0; of sgd and rmsprop
  bool nesterov = false;              ///< of sgd; for another rule it is an error
};

/// sgd, adam, adamw, nadam, nadamw, radam, radamw, lamb, lion, adafactor (of steps lr), rmsprop, adagrad or adadelta, where a
/// closing w means that the decay of weights is decoupled; others are an error that lists these.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Parameter> parameters,
                                          const CommonOptions& options);
std::string optimizer_names();  ///< separated by commas, for help
/// Whether the rule knows beta1, beta2, momentum or nesterov.
bool has_option(const std::string& optimizer, std::string_view option);

/// constant, cosine, linear, inverse_sqrt, noam or cosine_times_warmup: `peak` after `warmup` steps of `total`, down to `floor`
/// where the schedule has one. noam is scaled so that its peak is `peak`. Steps count from 0.
Schedule make_schedule(const std::string& name, double peak, int64_t warmup, int64_t total, double floor);
std::string schedule_names();                 ///< as optimizer_names()
bool has_floor(const std::string& schedule);  ///< whether it falls to a rate that make_schedule is given

}  // namespace vitrine::optim
