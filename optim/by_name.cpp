#include "optim/by_name.h"

#include <cmath>

#include "optim/optimizers.h"

namespace vitrine::optim {
namespace {

using Made = std::unique_ptr<Optimizer>;
using Parameters = std::vector<Parameter>;

template <class R, class Options>
Made made(Parameters p, const Options& o) {
  return std::make_unique<R>(std::move(p), o);
}

template <class R, class Options, Decay decay>
Made made_adam(Parameters p, const CommonOptions& c) {
  return made<R>(
      std::move(p),
      Options{
          .lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay, .decay = decay});
}

constexpr const char* kBetas = "beta1 beta2";

struct Rule {
  const char* name;
  std::string_view options;
  Made (*make)(Parameters, const CommonOptions&);
};

// clang-format off
const Rule kRules[] = {
    {"sgd", "momentum nesterov", [](Parameters p, const CommonOptions& c) {
       return made<Sgd>(p, SgdOptions{
           .lr = c.lr, .momentum = c.momentum, .weight_decay = c.weight_decay, .nesterov = c.nesterov});
     }},
    {"adam", kBetas, made_adam<Adam, AdamOptions, Decay::coupled>},
    {"adamw", kBetas, made_adam<Adam, AdamOptions, Decay::decoupled>},
    {"nadam", kBetas, made_adam<NAdam, NAdamOptions, Decay::coupled>},
    {"nadamw", kBetas, made_adam<NAdam, NAdamOptions, Decay::decoupled>},
    {"radam", kBetas, made_adam<RAdam, RAdamOptions, Decay::coupled>},
    {"radamw", kBetas, made_adam<RAdam, RAdamOptions, Decay::decoupled>},
    {"lamb", kBetas, [](Parameters p, const CommonOptions& c) {
       return made<Lamb>(p, LambOptions{
           .lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay});
     }},
    {"lion", kBetas, [](Parameters p, const CommonOptions& c) {
       return made<Lion>(p, LionOptions{c.lr, c.beta1, c.beta2, c.weight_decay});
     }},
    {"adafactor", "", [](Parameters p, const CommonOptions& c) {
       return made<Adafactor>(p, AdafactorOptions{
           .lr = c.lr, .relative_step = false, .scale_parameter = false, .weight_decay = c.weight_decay});
     }},
    {"rmsprop", "beta2 momentum", [](Parameters p, const CommonOptions& c) {
       return made<Rmsprop>(p, RmspropOptions{
           .lr = c.lr, .beta2 = c.beta2, .weight_decay = c.weight_decay, .momentum = c.momentum});
     }},
    {"adagrad", "", [](Parameters p, const CommonOptions& c) {
       return made<Adagrad>(p, AdagradOptions{.lr = c.lr, .weight_decay = c.weight_decay});
     }},
    {"adadelta", "", [](Parameters p, const CommonOptions& c) {
       return made<Adadelta>(p, AdadeltaOptions{.lr = c.lr, .weight_decay = c.weight_decay});
     }}};
// clang-format on

const char* const kSchedules[] = {"constant",     "cosine", "linear",
                                  "inverse_sqrt", "noam",   "cosine_times_warmup"};

const Rule& rule_of(const std::string& name) {
  for (const Rule& rule : kRules)
    if (name == rule.name) return rule;
  fail("there is no optimizer {}: wanted {}", name, optimizer_names());
}

}  // namespace

std::string optimizer_names() {
  std::vector<const char*> names;
  for (const Rule& rule : kRules) names.push_back(rule.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Made make_optimizer(const std::string& name, Parameters parameters, const CommonOptions& options) {
  check(!options.nesterov || has_option(name, "nesterov"),
        "{} has no Nesterov momentum: sgd has, and nadam is Adam with it", name);
  return rule_of(name).make(std::move(parameters), options);
}

bool has_option(const std::string& optimizer, std::string_view option) {
  return rule_of(optimizer).options.find(option) != std::string_view::npos;
}

std::string schedule_names() { return fmt::format("{}", fmt::join(kSchedules, ", ")); }

bool has_floor(const std::string& schedule) { return schedule == "cosine" || schedule == "linear"; }

Schedule make_schedule(const std::string& name, double peak, int64_t warmup, int64_t total, double floor) {
  check(peak >= 0 && floor >= 0, "{}: wanted learning rates of at least 0, got {} and {}", name, peak, floor);
  if (name == "constant") return constant(peak);
  if (name == "cosine") return warmup_cosine(peak, warmup, total, floor);
  if (name == "linear") return warmup_linear(peak, warmup, total, floor);
  if (name == "inverse_sqrt") return inverse_sqrt(peak, warmup);
  if (name == "cosine_times_warmup") return cosine_times_warmup(peak, warmup, total);
  check(name == "noam", "there is no schedule {}: wanted {}", name, schedule_names());
  const Schedule counted_from_1 = noam(1, warmup, peak * std::sqrt(static_cast<double>(warmup)));
  return [counted_from_1](int64_t step) { return counted_from_1(step + 1); };
}

}  // namespace vitrine::optim
