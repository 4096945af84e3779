// The optimizers against the golden tables of Keras: four digits, five steps. If Keras defines a
// rule differently, the adapter says how. Cases that are not run, with reasons:
// tests/optim/keras_skips.txt.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::optim;
using namespace vitrine::test;

namespace keras {
namespace {

using Made = std::unique_ptr<Optimizer>;
using Parameters = std::vector<Parameter>;

/// null means Keras's default.
double epsilon_of(const Settings& s) { return s.value("epsilon", 1e-7); }

/// The options that Adam and related rules share. Weight decay is decoupled in Keras.
template <class Options>
Options adam_options(const Settings& s) {
  Options o;
  o.lr = s.at("learning_rate"), o.eps = epsilon_of(s);
  o.beta1 = s.at("beta_1"), o.beta2 = s.at("beta_2");
  o.weight_decay = s.value("weight_decay", 0.0), o.decay = Decay::decoupled;
  return o;
}

Made adam(const Settings& s, const Parameters& p) {
  auto o = adam_options<AdamOptions>(s);
  o.amsgrad = s.value("amsgrad", false);
  return std::make_unique<Adam>(p, o);
}

Made adamax(const Settings& s, const Parameters& p) {
  return std::make_unique<Adamax>(p, adam_options<AdamaxOptions>(s));
}

/// Keras has 0.96^t where others have 0.96^(t/250).
Made nadam(const Settings& s, const Parameters& p) {
  auto o = adam_options<NAdamOptions>(s);
  o.momentum_decay = 1;
  return std::make_unique<NAdam>(p, o);
}

Made lion(const Settings& s, const Parameters& p) {
  LionOptions o;
  o.lr = s.at("learning_rate"), o.beta1 = s.at("beta_1"), o.beta2 = s.at("beta_2");
  o.weight_decay = s.value("weight_decay", 0.0);
  return std::make_unique<Lion>(p, o);
}

/// Keras does not clip φ.
Made lamb(const Settings& s, const Parameters& p) {
  LambOptions o;
  o.lr = s.at("learning_rate"), o.eps = epsilon_of(s);
  o.beta1 = s.at("beta_1"), o.beta2 = s.at("beta_2");
  o.phi_max = INFINITY;
  return std::make_unique<Lamb>(p, o);
}

Made rmsprop(const Settings& s, const Parameters& p) {
  RmspropOptions o;
  o.lr = s.at("learning_rate"), o.beta2 = s.at("rho"), o.eps = epsilon_of(s);
  o.momentum = s.value("momentum", 0.0), o.centered = s.value("centered", false);
  return std::make_unique<Rmsprop>(p, o);
}

Made adadelta(const Settings& s, const Parameters& p) {
  AdadeltaOptions o;
  o.lr = s.at("learning_rate"), o.rho = s.at("rho"), o.eps = epsilon_of(s);
  return std::make_unique<Adadelta>(p, o);
}

/// Keras's sum does not begin at 0; a first gradient of its root leaves that sum. Keras adds
/// epsilon under the root.
Made adagrad(const Settings& s, const Parameters& p) {
  AdagradOptions o;
  o.lr = s.at("learning_rate"), o.eps = epsilon_of(s);
  auto rule = std::make_unique<Adagrad>(p, o);
  const Tensor start = clone(p[0].master());
  Parameter x = p[0];
  x.master().set_grad(
      full(start.shape(), std::sqrt(s.value("initial_accumulator_value", 0.1)), start.dtype()));
  rule->step();
  x.assign(start);
  return rule;
}

/// Nesterov's step without momentum is plain descent in Keras.
Made sgd(const Settings& s, const Parameters& p) {
  SgdOptions o;
  o.lr = s.at("learning_rate"), o.momentum = s.value("momentum", 0.0);
  o.nesterov = s.value("nesterov", false) && o.momentum > 0;
  return std::make_unique<Sgd>(p, o);
}

const std::map<std::string, Made (*)(const Settings&, const Parameters&)> kOptimizers = {
    {"Adadelta", adadelta}, {"Adagrad", adagrad}, {"Adam", adam},   {"AdamW", adam},      {"Adamax", adamax},
    {"Lamb", lamb},         {"Lion", lion},       {"Nadam", nadam}, {"RMSprop", rmsprop}, {"SGD", sgd}};

Tensor gradient(size_t step) {
  std::vector<double> g(10, 0.01);
  if (step > 0)
    for (size_t i = 0; i < g.size(); ++i) g[i] = 0.1 * static_cast<double>(i + 1);
  return tensor(g, {10}, DType::float64);
}

/// Settings that every Keras optimizer accepts: clipping by element, or by the norm.
void set_gradient(const Parameter& p, size_t step, const Settings& s) {
  const double limit = s.value("clipvalue", 0.0), norm = s.value("global_clipnorm", s.value("clipnorm", 0.0));
  p.master().set_grad(limit > 0 ? clamp(gradient(step), -limit, limit) : gradient(step));
  if (norm > 0) clip_gradients({p}, norm);
}

/// Keras decays weights before the step, with every rule. Those that can do so themselves have read
/// the setting.
void decay(Parameter& p, const Settings& s) {
  const double share = s.value("weight_decay", 0.0) * s.at("learning_rate").get<double>();
  p.assign(p.master() * (1 - share));
}

void follow(const Json& c) {
  const std::string name = c.at("optimizer");
  const auto make = adapter_of(kOptimizers, "optimizer", name);
  const Settings settings(c.at("settings"));
  Parameter p(full({10}, 1.0, DType::float64));
  const auto optimizer = make(settings, {p});
  const bool decays_itself = settings.was_read("weight_decay");
  check(!settings.value("use_ema", false), "an average of the weights is not run");
  settings.get("ema_momentum");  // says nothing without use_ema
  const double rtol = c.at("rtol"), atol = c.at("atol");
  for (size_t step = 0; step < c.at("after_step").size(); ++step) {
    if (!decays_itself) decay(p, settings);
    set_gradient(p, step, settings);
    optimizer->step();
    const std::vector<double> x = p.master().values(), want = c.at("after_step")[step];
    check(want.size() == x.size(), "step {} has {} elements, wanted {}", step + 1, want.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i)
      check(std::abs(x[i] - want[i]) <= atol + rtol * std::abs(want[i]), "step {}, element {}: {}, wanted {}",
            step + 1, i, x[i], want[i]);
  }
  settings.check_all_read(name);
}

TEST_CASE("optimizers follow the golden tables of Keras") {
  const auto path = data_file("keras_optimizer_cases.json");
  if (!path) return;
  CaseRunner runner("tests/optim/keras_skips.txt");
  const Json json = read_json(*path);
  runner.run(json.at("cases"), "optimizer", [&](const Json& c) {
    const std::string name = c.at("optimizer");
    const Settings settings(c.at("settings"));
    if (runner.skips(name) || runner.skips(fmt::format("{}, epsilon {}", name, epsilon_of(settings)))) return;
    follow(c);
  });
  CHECK(runner.failures() == "");
  if (json.at("cases").size() == 5) CHECK(runner.ran() == 4);  // as many as were published
}

}  // namespace
}  // namespace keras
