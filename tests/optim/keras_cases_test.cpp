// The optimizers against the golden tables of Keras: four digits, five steps. What is not run, and why:
// tests/optim/keras_skips.txt.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::optim;
using namespace vitrine::test;

namespace {

using Made = std::unique_ptr<Optimizer>;
using Parameters = std::vector<Parameter>;

/// The options that Adam and its relatives share. Keras decays weights decoupled.
template <class Options>
Options adam_options(const Settings& s) {
  Options o;
  o.lr = s.at("learning_rate"), o.eps = s.at("epsilon");
  o.beta1 = s.at("beta_1"), o.beta2 = s.at("beta_2");
  o.weight_decay = s.value("weight_decay", 0.0), o.decay = Decay::decoupled;
  return o;
}

Made adam(const Settings& s, const Parameters& p) {
  auto o = adam_options<AdamOptions>(s);
  o.amsgrad = s.value("amsgrad", false);
  return std::make_unique<Adam>(p, o);
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

Made rmsprop(const Settings& s, const Parameters& p) {
  RmspropOptions o;
  o.lr = s.at("learning_rate"), o.beta2 = s.at("rho"), o.eps = s.at("epsilon");
  o.momentum = s.value("momentum", 0.0), o.centered = s.value("centered", false);
  return std::make_unique<Rmsprop>(p, o);
}

Made adadelta(const Settings& s, const Parameters& p) {
  AdadeltaOptions o;
  o.lr = s.at("learning_rate"), o.rho = s.at("rho"), o.eps = s.at("epsilon");
  return std::make_unique<Adadelta>(p, o);
}

Made sgd(const Settings& s, const Parameters& p) {
  SgdOptions o;
  o.lr = s.at("learning_rate");
  o.momentum = s.value("momentum", 0.0), o.nesterov = s.value("nesterov", false);
  return std::make_unique<Sgd>(p, o);
}

const std::map<std::string, Made (*)(const Settings&, const Parameters&)> kOptimizers = {
    {"Adadelta", adadelta}, {"Adam", adam},       {"AdamW", adam}, {"Lion", lion},
    {"Nadam", nadam},       {"RMSprop", rmsprop}, {"SGD", sgd}};

Tensor gradient(size_t step) {
  std::vector<double> g(10, 0.01);
  if (step > 0)
    for (size_t i = 0; i < g.size(); ++i) g[i] = 0.1 * static_cast<double>(i + 1);
  return tensor(g, {10}, DType::float64);
}

/// What any optimizer of Keras can be told: to clip each element, or by the norm.
void set_gradient(const Parameter& p, size_t step, const Settings& s) {
  const double limit = s.value("clipvalue", 0.0), norm = s.value("global_clipnorm", s.value("clipnorm", 0.0));
  p.master().set_grad(limit > 0 ? clamp(gradient(step), -limit, limit) : gradient(step));
  if (norm > 0) clip_gradients({p}, norm);
}

void run(const Json& c, const std::string& name) {
  const Settings settings(c.at("settings"));
  Parameter p(full({10}, 1.0, DType::float64));
  const auto optimizer = kOptimizers.at(name)(settings, {p});
  check(!settings.value("use_ema", false), "an average of the weights is not run");
  settings.get("ema_momentum");  // says nothing without use_ema
  const double rtol = c.at("rtol"), atol = c.at("atol");
  for (size_t step = 0; step < c.at("after_step").size(); ++step) {
    set_gradient(p, step, settings);
    optimizer->step();
    const std::vector<double> x = p.master().values(), want = c.at("after_step")[step];
    REQUIRE(want.size() == x.size());
    for (size_t i = 0; i < x.size(); ++i)
      CHECK_MESSAGE(std::abs(x[i] - want[i]) <= atol + rtol * std::abs(want[i]), "step ", step + 1,
                    ", element ", i, ": ", x[i], ", wanted ", want[i]);
  }
  settings.check_all_read(name);
}

/// The line of the list by which a case is skipped.
std::string skip_of(const Json& c) {
  return fmt::format("{}, epsilon {}", c.at("optimizer").get<std::string>(),
                     c.at("settings").value("epsilon", 0.0));
}

}  // namespace

TEST_CASE("optimizers follow the golden tables of Keras") {
  const auto json = read_json("keras_optimizer_cases.json");
  if (!json) return;
  const auto skips = read_skips("tests/optim/keras_skips.txt");
  int ran = 0;
  for (const Json& c : json->at("cases")) {
    if (skips.count(skip_of(c))) continue;
    const std::string name = c.at("optimizer");
    INFO(name, " ", c.at("settings").dump());
    CHECK_MESSAGE(kOptimizers.count(name), "neither in the library nor among the skips");
    if (kOptimizers.count(name)) CHECK_NOTHROW(run(c, name));
    ++ran;
  }
  if (is_default_data_directory()) CHECK(ran == 4);
}
