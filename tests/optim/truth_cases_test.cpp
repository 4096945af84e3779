// The optimizers and schedules against trajectories computed independently.
#include <doctest/doctest.h>

#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/creation.h"
#include "core/safetensors.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "optim/schedule.h"
#include "tests/cases.h"
#include "tests/data.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::optim;
using Json = nlohmann::json;

namespace {

/// The options that Adam and its relatives share.
template <class Options>
Options adam_options(const Json& h) {
  Options o;
  o.lr = h.value("lr", o.lr);
  o.beta1 = h.value("beta1", o.beta1);
  o.beta2 = h.value("beta2", o.beta2);
  o.weight_decay = h.value("weight_decay", 0.0);
  o.decay = h.value("decoupled", false) ? Decay::decoupled : Decay::coupled;
  return o;
}

std::unique_ptr<Optimizer> make_nadam(const std::string& rule, const Json& h, const Parameter& p) {
  auto o = adam_options<NAdamOptions>(h);
  o.momentum_decay = h.value("momentum_decay", o.momentum_decay);
  if (rule == "nadamw_simple") o.nesterov = Nesterov::simple, o.decay = Decay::decoupled;
  if (rule == "nadam_optax") o.nesterov = Nesterov::optax;
  return std::make_unique<NAdam>(std::vector{p}, o);
}

std::unique_ptr<Optimizer> make(const std::string& rule, const Json& h, const Parameter& p) {
  const std::vector<Parameter> one = {p};
  const double lr = h.value("lr", 0.0), beta1 = h.value("beta1", 0.9), decay = h.value("weight_decay", 0.0);
  if (rule == "adam") {
    auto o = adam_options<AdamOptions>(h);
    o.amsgrad = h.value("amsgrad", false);
    return std::make_unique<Adam>(one, o);
  }
  if (rule.starts_with("nadam")) return make_nadam(rule, h, p);
  if (rule == "radam") return std::make_unique<RAdam>(one, adam_options<RAdamOptions>(h));
  if (rule == "sgd")
    return std::make_unique<Sgd>(one, SgdOptions{lr, h.value("momentum", 0.0), h.value("dampening", 0.0),
                                                 decay, h.value("nesterov", false)});
  if (rule == "lamb")
    return std::make_unique<Lamb>(one, LambOptions{lr, beta1, h.value("beta2", 0.999), 1e-6, decay,
                                                   h.value("phi_min", 0.0), h.value("phi_max", 10.0)});
  if (rule == "adafactor")
    return std::make_unique<Adafactor>(
        one, AdafactorOptions{h.value("lr", 1e-2), h.value("relative_step", true),
                              h.value("scale_parameter", true), h.value("beta1", 0.0), decay});
  if (rule == "lion")
    return std::make_unique<Lion>(one, LionOptions{lr, beta1, h.value("beta2", 0.99), decay});
  if (rule == "rmsprop")
    return std::make_unique<Rmsprop>(
        one, RmspropOptions{lr, h.value("alpha", 0.99), 1e-8, decay, h.value("momentum", 0.0),
                            h.value("centered", false)});
  if (rule == "adagrad")
    return std::make_unique<Adagrad>(one, AdagradOptions{.lr = lr, .weight_decay = decay});
  return nullptr;
}

}  // namespace

TEST_CASE("optimizers follow the reference trajectories to rounding") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  const auto tensors = read_safetensors((*folder / "truth_cases" / "optim.safetensors").string()).tensors;
  int ran = 0;
  for (const Json& run : json.at("runs")) {
    const std::string rule = run.at("rule");
    const Tensor x = tensors.at(run.at("x")), g = tensors.at(run.at("g"));
    Parameter p(copy_as(select(x, 0, 0), DType::float64));
    const auto optimizer = make(rule, run.at("hyper"), p);
    REQUIRE_MESSAGE(optimizer, rule);
    for (int64_t t = 0; t < 20; ++t) {
      p.master().set_grad(copy_as(select(g, 0, t), DType::float64));
      optimizer->step();
      const double error = spec::distance(p.master().values(), select(x, 0, t + 1).values(), 1e-3);
      CHECK_MESSAGE(error <= 1e-9, fmt::format("{} {}, step {}: error {}", std::string(run.at("name")),
                                               std::string(run.at("problem")), t + 1, error));
    }
    ++ran;
  }
  if (test::has_default_cases()) CHECK(ran == 48);
}

TEST_CASE("clipping by the global norm matches the reference") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  const auto tensors = read_safetensors((*folder / "truth_cases" / "optim.safetensors").string()).tensors;
  for (const Json& c : json.at("clip")) {
    std::vector<Parameter> parameters;
    const std::string prefix = c.at("prefix");
    for (int i = 0; i < c.at("tensors"); ++i) {
      const Tensor g = copy_as(tensors.at(fmt::format("{}.in{}", prefix, i)), DType::float64);
      parameters.emplace_back(zeros_like(g)).master().set_grad(g);
    }
    const double norm = c.at("norm");
    CHECK(gradient_norm(parameters) == doctest::Approx(norm).epsilon(1e-13));
    CHECK(clip_gradients(parameters, c.at("max_norm")) == doctest::Approx(norm).epsilon(1e-13));
    for (size_t i = 0; i < parameters.size(); ++i)
      CHECK(spec::distance(parameters[i].grad().values(),
                           tensors.at(fmt::format("{}.out{}", prefix, i)).values(), 1e-3) <= 1e-12);
  }
}

TEST_CASE("schedules match the reference at every step") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  for (const Json& s : json.at("schedules")) {
    const std::string name = s.at("name");
    const Json& p = s.at("params");
    const double peak = p.value("peak", 0.0);
    const int64_t warmup = p.at("warmup"), total = p.value("total", 0);
    const Schedule schedule =
        name == "warmup_cosine"   ? warmup_cosine(peak, warmup, total, p.value("floor", 0.0))
        : name == "warmup_linear" ? warmup_linear(peak, warmup, total, p.value("floor", 0.0))
        : name == "noam"          ? noam(p.at("d_model"), warmup, p.at("factor"))
        : name == "inverse_sqrt"  ? inverse_sqrt(peak, warmup, p.at("start"))
                                  : cosine_times_warmup(peak, warmup, total);
    for (size_t i = 0; i < s.at("steps").size(); ++i) {
      const double want = s.at("lr")[i];
      CHECK_MESSAGE(std::abs(schedule(s.at("steps")[i]) - want) <= 1e-15,
                    fmt::format("{} at {}", name, int64_t{s.at("steps")[i]}));
    }
  }
}
