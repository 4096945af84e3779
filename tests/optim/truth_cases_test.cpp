// The optimizers and schedules against trajectories computed independently.
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "core/creation.h"
#include "core/safetensors.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "optim/schedule.h"
#include "tests/data.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::optim;
using Json = nlohmann::json;

namespace {

/// Rules that are in the reference and not in the library.
const std::set<std::string> kAbsent = {"adafactor", "nadamw_simple", "nadam_optax", "rmsprop", "adagrad"};

std::unique_ptr<Optimizer> make(const std::string& rule, const Json& h, const Parameter& p) {
  AdamOptions a;
  a.lr = h.value("lr", a.lr);
  a.beta1 = h.value("beta1", a.beta1);
  a.beta2 = h.value("beta2", a.beta2);
  a.weight_decay = h.value("weight_decay", 0.0);
  a.decay = h.value("decoupled", false) ? Decay::decoupled : Decay::coupled;
  a.amsgrad = h.value("amsgrad", false);
  a.momentum_decay = h.value("momentum_decay", a.momentum_decay);
  if (rule == "adam") return std::make_unique<Adam>(std::vector{p}, a);
  if (rule == "nadam") return std::make_unique<NAdam>(std::vector{p}, a);
  if (rule == "radam") return std::make_unique<RAdam>(std::vector{p}, a);
  if (rule == "sgd")
    return std::make_unique<Sgd>(
        std::vector{p}, SgdOptions{a.lr, h.value("momentum", 0.0), h.value("dampening", 0.0), a.weight_decay,
                                   h.value("nesterov", false)});
  if (rule == "lamb")
    return std::make_unique<Lamb>(
        std::vector{p}, LambOptions{a.lr, a.beta1, a.beta2, 1e-6, a.weight_decay, h.value("phi_min", 0.0),
                                    h.value("phi_max", 10.0)});
  if (rule == "lion")
    return std::make_unique<Lion>(std::vector{p},
                                  LionOptions{a.lr, a.beta1, h.value("beta2", 0.99), a.weight_decay});
  return nullptr;
}

}  // namespace

TEST_CASE("optimizers follow the reference trajectories to rounding") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  const auto tensors = read_safetensors((*folder / "truth_cases" / "optim.safetensors").string()).tensors;
  int ran = 0;
  for (const Json& run : json["runs"]) {
    const std::string rule = run["rule"];
    if (kAbsent.count(rule)) continue;
    const Tensor x = tensors.at(run["x"]), g = tensors.at(run["g"]);
    Parameter p(copy_as(select(x, 0, 0), DType::float64));
    const auto optimizer = make(rule, run["hyper"], p);
    REQUIRE_MESSAGE(optimizer, rule);
    for (int64_t t = 0; t < 20; ++t) {
      p.master().set_grad(copy_as(select(g, 0, t), DType::float64));
      optimizer->step();
      const double error = spec::distance(p.master().values(), select(x, 0, t + 1).values(), 1e-3);
      CHECK_MESSAGE(error <= 1e-9, fmt::format("{} {}, step {}: error {}", std::string(run["name"]),
                                               std::string(run["problem"]), t + 1, error));
    }
    ++ran;
  }
  CHECK(ran >= 34);
}

TEST_CASE("clipping by the global norm matches the reference") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  for (const Json& c : json["clip"]) {
    const double norm = c["norm"], factor = c["factor"];
    Parameter p(zeros({1}, DType::float64));
    p.master().set_grad(tensor({norm}, DType::float64));
    CHECK(clip_gradients({p}, c["max_norm"]) == doctest::Approx(norm).epsilon(1e-12));
    CHECK(p.grad().item() == doctest::Approx(norm * factor).epsilon(1e-12));
  }
}

TEST_CASE("schedules match the reference at every step") {
  const auto folder = test::data_directory();
  if (!folder) return;
  const Json json = Json::parse(std::ifstream(*folder / "truth_cases" / "optim.json"));
  for (const Json& s : json["schedules"]) {
    const std::string name = s["name"];
    const Json& p = s["params"];
    const double peak = p.value("peak", 0.0);
    const int64_t warmup = p["warmup"], total = p.value("total", 0);
    const Schedule schedule =
        name == "warmup_cosine"   ? warmup_cosine(peak, warmup, total, p.value("floor", 0.0))
        : name == "warmup_linear" ? warmup_linear(peak, warmup, total, p.value("floor", 0.0))
        : name == "noam"          ? noam(p["d_model"], warmup, p["factor"])
        : name == "inverse_sqrt"  ? inverse_sqrt(peak, warmup, p["start"])
                                  : cosine_times_warmup(peak, warmup, total);
    for (size_t i = 0; i < s["steps"].size(); ++i) {
      const double want = s["lr"][i];
      CHECK_MESSAGE(std::abs(schedule(s["steps"][i]) - want) <= 1e-15,
                    fmt::format("{} at {}", name, int64_t{s["steps"][i]}));
    }
  }
}
