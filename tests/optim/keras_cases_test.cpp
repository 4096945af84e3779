// The optimizers against the golden tables of Keras: four digits, five steps. What is not run, and why:
// tests/optim/keras_skips.txt.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/creation.h"
#include "optim/optimizers.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::optim;
using Json = nlohmann::json;

namespace {

std::unique_ptr<Optimizer> make(const std::string& name, const Json& s, const Parameter& p) {
  if (name == "Adam") {
    AdamOptions o;
    o.lr = s.at("learning_rate");
    o.beta1 = s.at("beta_1");
    o.beta2 = s.at("beta_2");
    o.eps = s.at("epsilon");
    o.amsgrad = s.at("amsgrad");
    o.weight_decay = 0;
    return std::make_unique<Adam>(std::vector{p}, o);
  }
  if (name == "Lion") {
    LionOptions o;
    o.lr = s.at("learning_rate");
    o.beta1 = s.at("beta_1");
    o.beta2 = s.at("beta_2");
    o.weight_decay = 0;
    return std::make_unique<Lion>(std::vector{p}, o);
  }
  if (name == "RMSprop")
    return std::make_unique<Rmsprop>(std::vector{p},
                                     RmspropOptions{s.at("learning_rate"), s.at("rho"), s.at("epsilon"), 0,
                                                    s.at("momentum"), s.at("centered")});
  if (name == "Adadelta")
    return std::make_unique<Adadelta>(
        std::vector{p}, AdadeltaOptions{s.at("learning_rate"), s.at("rho"), s.at("epsilon"), 0});
  return nullptr;
}

}  // namespace

TEST_CASE("optimizers follow the golden tables of Keras") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "keras_optimizer_cases.json"));
  const auto skips = test::read_skips("tests/optim/keras_skips.txt");
  int ran = 0;
  for (const Json& c : json.at("cases")) {
    const std::string name = c.at("optimizer");
    if (skips.count(name)) continue;
    Parameter p(full({10}, 1.0, DType::float64));
    const auto optimizer = make(name, c.at("settings"), p);
    REQUIRE_MESSAGE(optimizer, name, " is neither in the library nor among the skips");
    const double rtol = c.at("rtol"), atol = c.at("atol");
    for (size_t step = 0; step < c.at("after_step").size(); ++step) {
      std::vector<double> g(10, 0.01);
      if (step > 0)
        for (size_t i = 0; i < g.size(); ++i) g[i] = 0.1 * static_cast<double>(i + 1);
      p.master().set_grad(tensor(g, {10}, DType::float64));
      optimizer->step();
      const std::vector<double> x = p.master().values(), want = c.at("after_step")[step];
      for (size_t i = 0; i < x.size(); ++i)
        CHECK_MESSAGE(std::abs(x[i] - want[i]) <= atol + rtol * std::abs(want[i]), name, ", step ", step + 1,
                      ", element ", i, ": ", x[i], ", wanted ", want[i]);
    }
    ++ran;
  }
  if (test::has_default_cases()) CHECK(ran == 4);
}
