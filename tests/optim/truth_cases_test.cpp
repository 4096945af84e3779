// The optimizers, clipping and schedules against truth_cases/optim.json.
#include <doctest/doctest.h>

#include <memory>

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
using namespace vitrine::test;

namespace {

using Hyper = const Settings&;
using Made = std::unique_ptr<Optimizer>;
using Parameters = std::vector<Parameter>;

/// The options that Adam and its relatives share.
template <class Options>
Options adam_options(Hyper h) {
  Options o;
  o.lr = h.value("lr", o.lr), o.eps = h.value("eps", o.eps);
  o.beta1 = h.value("beta1", o.beta1), o.beta2 = h.value("beta2", o.beta2);
  o.weight_decay = h.value("weight_decay", o.weight_decay);
  o.decay = h.value("decoupled", false) ? Decay::decoupled : Decay::coupled;
  return o;
}

Made adam(Hyper h, const Parameters& p) {
  auto o = adam_options<AdamOptions>(h);
  o.amsgrad = h.value("amsgrad", o.amsgrad);
  return std::make_unique<Adam>(p, o);
}

Made nadam(Hyper h, const Parameters& p) {
  auto o = adam_options<NAdamOptions>(h);
  o.momentum_decay = h.value("momentum_decay", o.momentum_decay);
  return std::make_unique<NAdam>(p, o);
}

Made nadamw_simple(Hyper h, const Parameters& p) {
  auto o = adam_options<NAdamOptions>(h);
  o.nesterov = Nesterov::simple, o.decay = Decay::decoupled;
  return std::make_unique<NAdam>(p, o);
}

Made nadam_optax(Hyper h, const Parameters& p) {
  auto o = adam_options<NAdamOptions>(h);
  o.nesterov = Nesterov::optax;
  return std::make_unique<NAdam>(p, o);
}

Made radam(Hyper h, const Parameters& p) { return std::make_unique<RAdam>(p, adam_options<RAdamOptions>(h)); }

Made sgd(Hyper h, const Parameters& p) {
  SgdOptions o;
  o.lr = h.value("lr", o.lr), o.weight_decay = h.value("weight_decay", o.weight_decay);
  o.momentum = h.value("momentum", o.momentum), o.dampening = h.value("dampening", o.dampening);
  o.nesterov = h.value("nesterov", o.nesterov);
  return std::make_unique<Sgd>(p, o);
}

Made lamb(Hyper h, const Parameters& p) {
  LambOptions o;
  o.lr = h.value("lr", o.lr), o.eps = h.value("eps", o.eps);
  o.beta1 = h.value("beta1", o.beta1), o.beta2 = h.value("beta2", o.beta2);
  o.weight_decay = h.value("weight_decay", o.weight_decay);
  o.phi_min = h.value("phi_min", o.phi_min), o.phi_max = h.value("phi_max", o.phi_max);
  return std::make_unique<Lamb>(p, o);
}

/// A rate that is given is fixed, unless the case says otherwise.
Made adafactor(Hyper h, const Parameters& p) {
  AdafactorOptions o;
  o.relative_step = h.value("relative_step", !h.has("lr"));
  o.lr = h.value("lr", o.lr), o.beta1 = h.value("beta1", o.beta1);
  o.scale_parameter = h.value("scale_parameter", o.scale_parameter);
  o.weight_decay = h.value("weight_decay", o.weight_decay);
  return std::make_unique<Adafactor>(p, o);
}

Made lion(Hyper h, const Parameters& p) {
  LionOptions o;
  o.lr = h.value("lr", o.lr), o.weight_decay = h.value("weight_decay", o.weight_decay);
  o.beta1 = h.value("beta1", o.beta1), o.beta2 = h.value("beta2", o.beta2);
  return std::make_unique<Lion>(p, o);
}

Made rmsprop(Hyper h, const Parameters& p) {
  RmspropOptions o;
  o.lr = h.value("lr", o.lr), o.beta2 = h.value("alpha", o.beta2), o.eps = h.value("eps", o.eps);
  o.weight_decay = h.value("weight_decay", o.weight_decay);
  o.momentum = h.value("momentum", o.momentum), o.centered = h.value("centered", o.centered);
  return std::make_unique<Rmsprop>(p, o);
}

Made adagrad(Hyper h, const Parameters& p) {
  AdagradOptions o;
  o.lr = h.value("lr", o.lr), o.eps = h.value("eps", o.eps);
  o.weight_decay = h.value("weight_decay", o.weight_decay), o.lr_decay = h.value("lr_decay", o.lr_decay);
  return std::make_unique<Adagrad>(p, o);
}

const std::map<std::string, Made (*)(Hyper, const Parameters&)> kRules = {{"adafactor", adafactor},
                                                                          {"adagrad", adagrad},
                                                                          {"adam", adam},
                                                                          {"lamb", lamb},
                                                                          {"lion", lion},
                                                                          {"nadam", nadam},
                                                                          {"nadam_optax", nadam_optax},
                                                                          {"nadamw_simple", nadamw_simple},
                                                                          {"radam", radam},
                                                                          {"rmsprop", rmsprop},
                                                                          {"sgd", sgd}};

const std::map<std::string, Schedule (*)(const Settings&)> kSchedules = {
    {"cosine_times_warmup",
     [](const Settings& p) { return cosine_times_warmup(p.at("peak"), p.at("warmup"), p.at("total")); }},
    {"inverse_sqrt",
     [](const Settings& p) { return inverse_sqrt(p.at("peak"), p.at("warmup"), p.value("start", 0.0)); }},
    {"noam", [](const Settings& p) { return noam(p.at("d_model"), p.at("warmup"), p.value("factor", 1.0)); }},
    {"warmup_cosine",
     [](const Settings& p) {
       return warmup_cosine(p.at("peak"), p.at("warmup"), p.at("total"), p.value("floor", 0.0));
     }},
    {"warmup_linear",
     [](const Settings& p) {
       return warmup_linear(p.at("peak"), p.at("warmup"), p.at("total"), p.value("floor", 0.0));
     }},
};

/// A part of optim.json; empty where there is none.
Json part(const char* name) {
  const auto json = read_json("truth_cases/optim.json");
  return json ? json->value(name, Json::array()) : Json::array();
}

Tensors tensors_of_runs() {
  const auto json = read_json("truth_cases/optim.json");
  if (!json) return {};
  const auto file = *data_directory() / "truth_cases" / json->value("file", "optim.safetensors");
  return read_safetensors(file.string()).tensors;
}

/// Feeds the gradients of a run to its rule; an error names the first step that leaves the trajectory.
void follow(const Json& run, const Tensors& tensors) {
  const std::string rule = run.at("rule");
  check(kRules.count(rule) > 0, "there is no adapter for the rule {}", rule);
  const Settings hyper(run.at("hyper"));
  const Tensor x = tensors.at(run.at("x")), g = tensors.at(run.at("g"));
  check(g.size(0) > 0 && x.size(0) == g.size(0) + 1, "{} points of {} steps", x.size(0), g.size(0));
  Parameter p(copy_as(select(x, 0, 0), DType::float64));
  const auto optimizer = kRules.at(rule)(hyper, {p});
  hyper.check_all_read(rule);
  for (int64_t t = 0; t < g.size(0); ++t) {
    p.master().set_grad(copy_as(select(g, 0, t), DType::float64));
    optimizer->step();
    const double error = spec::distance(p.master().values(), select(x, 0, t + 1).values(), 1e-3);
    check(error <= 1e-9, "step {} is off by {:.2e}", t + 1, error);
  }
}

}  // namespace

TEST_CASE("optimizers follow the reference trajectories to rounding") {
  const Json runs = part("runs");
  const Tensors tensors = tensors_of_runs();
  for (const Json& run : runs) {
    INFO(run.dump());
    CHECK_NOTHROW(follow(run, tensors));
  }
  if (is_default_data_directory()) CHECK(runs.size() == 48);
}

TEST_CASE("clipping by the global norm matches the reference") {
  const Json clips = part("clip");
  const Tensors tensors = tensors_of_runs();
  for (const Json& c : clips) {
    INFO(c.dump());
    std::vector<Parameter> parameters;
    const std::string prefix = c.at("prefix");
    for (int i = 0; i < c.at("tensors"); ++i) {
      const Tensor g = copy_as(tensors.at(fmt::format("{}.in{}", prefix, i)), DType::float64);
      parameters.emplace_back(zeros_like(g)).master().set_grad(g);
    }
    const double norm = c.at("norm");
    CHECK(gradient_norm(parameters) == doctest::Approx(norm).epsilon(1e-13));
    CHECK(clip_gradients(parameters, c.at("max_norm")).item() == doctest::Approx(norm).epsilon(1e-13));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor want = tensors.at(fmt::format("{}.out{}", prefix, i));
      CHECK(spec::distance(parameters[i].grad().values(), want.values(), 1e-3) <= 1e-12);
    }
  }
  if (is_default_data_directory()) CHECK(clips.size() == 3);
}

TEST_CASE("schedules match the reference at every step") {
  const Json schedules = part("schedules");
  for (const Json& s : schedules) {
    const std::string name = s.at("name");
    INFO(name, " ", s.at("params").dump());
    REQUIRE_MESSAGE(kSchedules.count(name), "there is no adapter for the schedule");
    const Settings params(s.at("params"));
    const Schedule schedule = kSchedules.at(name)(params);
    CHECK_NOTHROW(params.check_all_read(name));
    CHECK(s.at("steps").size() == s.at("lr").size());
    for (size_t i = 0; i < s.at("steps").size(); ++i) {
      const double want = s.at("lr")[i], rounding = 1e-15 + 1e-13 * std::abs(want);
      CHECK_MESSAGE(std::abs(schedule(s.at("steps")[i]) - want) <= rounding, "step ",
                    int64_t{s.at("steps")[i]});
    }
  }
  if (is_default_data_directory()) CHECK(schedules.size() == 7);
}
