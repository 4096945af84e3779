// A step of AdamW over all parameters of a model, against the plain loop, against the bandwidth of
// memory that is updated in place, and against PyTorch's step. With --rule, the step of another
// rule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/limits.h"
#include "bench/measure/process.h"
#include "bench/measure/sizes.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/by_name.h"
#include "optim/optimizers.h"

using namespace vitrine;

namespace {

template <class F>
double median_seconds(int repeats, F&& f) {
  f();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double start = bench::seconds();
    f();
    times.push_back(bench::seconds() - start);
  }
  return bench::median(times);
}

/// What one writes without thought: a scalar loop on one thread.
void plain_adamw(float* x, const float* g, float* m, float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    x[i] = x[i] * (1 - 1e-5f) - 1e-4f * (m[i] / 0.1f) / (std::sqrt(v[i] / 0.001f) + 1e-8f);
  }
}

/// It has float32 parameters of its own, whatever the model's are.
double plain_seconds(const std::vector<Parameter>& parameters, int repeats) {
  std::vector<Tensor> x, m, v;
  for (const Parameter& p : parameters)
    x.push_back(clone(p.master())), m.push_back(zeros_like(x.back())), v.push_back(zeros_like(x.back()));
  return median_seconds(repeats, [&] {
    for (size_t i = 0; i < parameters.size(); ++i)
      plain_adamw(x[i].data<float>(), parameters[i].grad().data<float>(), m[i].data<float>(),
                  v[i].data<float>(), parameters[i].numel());
  });
}

/// Parameters of a model with gradients: a fixed pattern.
std::vector<Parameter> parameters_of(nn::Gpt& model, const std::string& dtype) {
  model.to(dtype_of(dtype));
  std::vector<Parameter> parameters = model.parameters();
  for (const Parameter& p : parameters) {
    Tape tape;
    tape.backward(sum(p.value() * 0.01));
  }
  return parameters;
}

void measure_rule(const bench::Size& s, const std::string& dtype, int repeats, const std::string& rule,
                  DType moments) {
  nn::Gpt model(s.model);
  const auto optimizer =
      optim::make_optimizer(rule, parameters_of(model, dtype), {.lr = 1e-4, .moments = moments});
  const double ours = median_seconds(repeats, [&] { optimizer->step(); });
  fmt::print("{:<6}{:<10}{:>12}{:>12}{:>10.3f} ms\n", s.name, dtype, model.parameter_count(), rule,
             1e3 * ours);
  std::fflush(stdout);
}

void measure(const bench::Size& s, const std::string& dtype, int repeats, double bandwidth) {
  nn::Gpt model(s.model);
  const std::vector<Parameter> parameters = parameters_of(model, dtype);
  optim::AdamOptions options;
  options.lr = 1e-4, options.weight_decay = 0.1, options.decay = optim::Decay::decoupled;
  optim::Adam optimizer(parameters, options);
  const double ours = median_seconds(repeats, [&] { optimizer.step(); });
  const double norm = median_seconds(repeats, [&] { optim::clip_gradients(parameters, 1e9); });
  const double plain = plain_seconds(parameters, repeats);
  // x, m and v are read and written, g is read: 28 bytes a parameter. A bfloat16 model has x in two
  // halves of 2 bytes each.
  const double bytes = 28.0 * static_cast<double>(model.parameter_count());
  fmt::print("{:<6}{:<10}{:>12}{:>10.3f}{:>10.3f}{:>8.2f}x{:>12.0f}%{:>10.3f}\n", s.name, dtype,
             model.parameter_count(), 1e3 * ours, 1e3 * plain, plain / ours, 100 * bytes / ours / bandwidth,
             1e3 * norm);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A step of an optimizer, AdamW by default, over a whole model");
  std::string only, rule, moments = "float32";
  int repeats = 11, count = 2;
  app.add_option("--size", only, "Only this size: a, b or c");
  app.add_option("--rule", rule, "Only a step of this rule: " + optim::optimizer_names());
  app.add_option("--moments", moments, "With --rule: the dtype of its moments, float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--repeats", repeats, "Steps that are timed")->capture_default_str();
  app.add_option("--threads", count, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  set_threads(count);
  for (const bench::Size& s : bench::sizes())
    for (const char* dtype : {"float32", "bfloat16"})
      if (!rule.empty() && (only.empty() || only == s.name))
        measure_rule(s, dtype, repeats, rule, dtype_of(moments));
  if (!rule.empty()) return 0;
  const bench::Bandwidth memory = bench::bandwidth();
  fmt::print("{} threads; memory: {:.1f} GB/s read, {:.1f} GB/s updated in place, {:.1f} GB/s copied\n\n",
             count, 1e-9 * memory.read, 1e-9 * memory.update, 1e-9 * memory.copy);
  fmt::print("{:<6}{:<10}{:>12}{:>10}{:>10}{:>9}{:>13}{:>10}\n", "size", "", "parameters", "step ms",
             "plain ms", "ratio", "of updates", "norm ms");
  for (const bench::Size& s : bench::sizes())
    for (const char* dtype : {"float32", "bfloat16"})
      if (only.empty() || only == s.name) measure(s, dtype, repeats, memory.update);
  const std::string peer = bench::pytorch("adamw.py");
  if (peer.empty()) return 0;
  for (const bench::Size& s : bench::sizes()) {
    if (!only.empty() && only != s.name) continue;
    const auto run = bench::run_for_json(fmt::format("{} {}", peer, bench::arguments(s)));
    fmt::print("{:<6}PyTorch {:>24.3f} ms\n", s.name, 1e3 * bench::median(run["seconds"]));
  }
}
