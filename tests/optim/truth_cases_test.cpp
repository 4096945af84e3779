// The optimizers, clipping and schedules against the optim.json of the reference cases. Rules that
// are not run, and why: tests/optim/truth_cases_skips.txt.
#include <doctest/doctest.h>

#include <memory>

#include "core/creation.h"
#include "core/files/safetensors.h"
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

/// The options that Adam and related rules share.
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

/// A given rate is fixed, unless the case says otherwise.
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

Made muon(Hyper h, const Parameters& p) {
  MuonOptions o;
  o.lr = h.value("lr", o.lr), o.momentum = h.value("momentum", o.momentum);
  o.nesterov = h.value("nesterov", o.nesterov), o.weight_decay = h.value("weight_decay", o.weight_decay);
  if (h.value("match_rms_adamw", false)) o.scale = MuonScale::adamw_rms;
  return std::make_unique<Muon>(p, o);
}

Made shampoo(Hyper h, const Parameters& p) {
  return std::make_unique<Shampoo>(p, ShampooOptions{.lr = h.at("lr"), .eps = h.at("eps")});
}

Made schedule_free(Hyper h, const Parameters& p) {
  ScheduleFreeOptions o;
  o.lr = h.value("lr", o.lr), o.beta2 = h.value("beta2", o.beta2);
  o.weight_decay = h.value("weight_decay", o.weight_decay), o.warmup = h.value("warmup", o.warmup);
  return std::make_unique<ScheduleFreeAdamW>(p, o);
}

Made sophia(Hyper h, const Parameters& p) {
  SophiaOptions o;
  o.lr = h.value("lr", o.lr), o.gamma = h.value("gamma", o.gamma), o.every = h.value("every", o.every);
  o.weight_decay = h.value("weight_decay", o.weight_decay);
  return std::make_unique<Sophia>(p, o);
}

const std::map<std::string, Made (*)(Hyper, const Parameters&)> kRules = {
    {"adafactor", adafactor},
    {"adagrad", adagrad},
    {"adam", adam},
    {"lamb", lamb},
    {"lion", lion},
    {"muon", muon},
    {"nadam", nadam},
    {"nadam_optax", nadam_optax},
    {"nadamw_simple", nadamw_simple},
    {"radam", radam},
    {"rmsprop", rmsprop},
    {"schedule_free_adamw", schedule_free},
    {"sgd", sgd},
    {"shampoo", shampoo},
    {"sophia", sophia}};

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

/// The optim.json of a folder of reference cases, with its tensors.
struct OptimCases {
  bool golden;
  Json json;
  Tensors tensors;
};

/// The files of a set: the golden ones, and those of VITRINE_DATA if it contains them.
std::vector<OptimCases> optim_cases(const std::string& set) {
  std::vector<OptimCases> all;
  for (const CaseFolder& folder : case_folders(set)) {
    if (!folder.golden && !std::filesystem::exists(folder.path / "optim.json")) continue;
    const Json json = read_json(folder.path / "optim.json");
    const auto file = folder.path / json.value("file", "optim.safetensors");
    all.push_back({folder.golden, json, read_safetensors(file.string()).tensors});
  }
  return all;
}

/// An error names the step that leaves the trajectory `x`.
void check_point(const Parameter& p, const char* what, const Tensor& x, int64_t row, int64_t step) {
  const double error = spec::distance(p.master().values(), select(x, 0, row).values(), 1e-3);
  check(error <= 1e-9, "{} of step {} is off by {:.2e}", what, step, error);
}

/// Passes the gradients of a run, and its estimates of the Hessian, to its rule. An error names the
/// first step that leaves the trajectory.
void follow(const Json& run, const Tensors& tensors) {
  const std::string rule = run.at("rule");
  const auto make = adapter_of(kRules, "rule", rule);
  const Settings hyper(run.at("hyper"));
  const Tensor x = tensors.at(run.at("x")), g = tensors.at(run.at("g"));
  check(g.size(0) > 0 && x.size(0) == g.size(0) + 1, "{} points of {} steps", x.size(0), g.size(0));
  Parameter p(copy_as(select(x, 0, 0), DType::float64));
  const auto optimizer = make(hyper, {p});
  hyper.check_all_read(rule);
  for (int64_t t = 0; t < g.size(0); ++t) {
    p.master().set_grad(copy_as(select(g, 0, t), DType::float64));
    if (run.contains("hessian"))
      if (auto& rule_of_run = dynamic_cast<Sophia&>(*optimizer); rule_of_run.needs_estimate())
        rule_of_run.add_estimates({p}, {select(tensors.at(run.at("hessian")), 0, t)});
    optimizer->step();
    check_point(p, "the point", x, t + 1, t + 1);
    if (!run.contains("average")) continue;
    const PointScope evaluation(*optimizer, Optimizer::Point::evaluation);
    check_point(p, "the average", tensors.at(run.at("average")), t, t + 1);
  }
}

void check_clip(const Json& c, const Tensors& tensors) {
  std::vector<Parameter> parameters;
  const std::string prefix = c.at("prefix");
  for (int i = 0; i < c.at("tensors"); ++i) {
    const Tensor g = copy_as(tensors.at(fmt::format("{}.in{}", prefix, i)), DType::float64);
    parameters.emplace_back(zeros_like(g)).master().set_grad(g);
  }
  const double norm = c.at("norm");
  for (const double got : {gradient_norm(parameters), clip_gradients(parameters, c.at("max_norm")).item()})
    check(std::abs(got - norm) <= 1e-13 * norm, "the norm is {}, wanted {}", got, norm);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor want = tensors.at(fmt::format("{}.out{}", prefix, i));
    const double error = spec::distance(parameters[i].grad().values(), want.values(), 1e-3);
    check(error <= 1e-12, "tensor {} is off by {:.2e}", i, error);
  }
}

void check_schedule(const Json& s) {
  const std::string name = s.at("name");
  const Settings params(s.at("params"));
  const Schedule schedule = adapter_of(kSchedules, "schedule", name)(params);
  params.check_all_read(name);
  check(s.at("steps").size() == s.at("lr").size(), "{} steps, {} rates", s.at("steps").size(),
        s.at("lr").size());
  for (size_t i = 0; i < s.at("steps").size(); ++i) {
    const double got = schedule(s.at("steps")[i]), want = s.at("lr")[i];
    check(std::abs(got - want) <= 1e-15 + 1e-13 * std::abs(want), "step {}: {}, wanted {}",
          s.at("steps")[i].get<int64_t>(), got, want);
  }
}

/// The cases that a golden set has of each kind.
struct Counts {
  int runs = 0, skipped_runs = 0, clips = 0, schedules = 0;
};

void check_set(const std::string& set, const Counts& expected) {
  for (const OptimCases& cases : optim_cases(set)) {
    CaseRunner runs("tests/optim/truth_cases_skips.txt"), clips, schedules;
    runs.run(cases.json.value("runs", Json::array()), "x", [&](const Json& c) {
      if (!runs.skips(c.at("rule"))) follow(c, cases.tensors);
    });
    clips.run(cases.json.value("clip", Json::array()), "prefix",
              [&](const Json& c) { check_clip(c, cases.tensors); });
    schedules.run(cases.json.value("schedules", Json::array()), "name", check_schedule);
    for (const CaseRunner* runner : {&runs, &clips, &schedules}) CHECK(runner->failures() == "");
    if (!cases.golden) continue;
    CHECK(runs.ran() == expected.runs);
    CHECK(runs.skipped() == expected.skipped_runs);
    CHECK(clips.ran() == expected.clips);
    CHECK(schedules.ran() == expected.schedules);
  }
}

}  // namespace

TEST_CASE("optimizers, clipping and schedules follow the reference cases to rounding") {
  check_set("truth_cases", {.runs = 48, .clips = 3, .schedules = 7});
}

TEST_CASE("optimizers follow the reference cases of the second set to rounding") {
  check_set("truth_cases_2", {.runs = 14});
}
