// Each kernel op against its definition, and against the same op in PyTorch: forward, and forward
// with backward, float32. Kernel and definition alternate, so that a disturbance affects both.
// Medians count.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/process.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rotary.h"
#include "ops/softmax.h"

using namespace vitrine;

namespace {

using Xs = const std::vector<Tensor>&;
using Call = std::function<Tensor(Xs)>;

struct Case {
  std::string name;  // also that of bench/pytorch/ops.py
  std::vector<Shape> shapes;
  Call kernel, definition;
};

Case attention_case(const std::string& name, const Shape& shape, AttentionRead read) {
  AttentionOptions o;
  o.causal = true;
  o.read = read;
  return {name,
          {shape, shape, shape},
          [o](Xs x) { return attention(x[0], x[1], x[2], o); },
          [o](Xs x) { return define::attention(x[0], x[1], x[2], o); }};
}

const Shape kWide{4096, 3072};

/// A function of each element.
Case elements(const std::string& name, Tensor (*kernel)(const Tensor&), Tensor (*definition)(const Tensor&)) {
  return {name,
          {kWide},
          [kernel](Xs x) { return kernel(x[0]); },
          [definition](Xs x) { return definition(x[0]); }};
}

std::vector<Case> cases() {
  const Shape rows{4096, 1024};
  std::vector<int64_t> labels(2048);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 7919 % 50257);
  const Tensor targets = index_tensor(labels, {2048});
  const Tensor angle = randn({1024, 32}), cosine = cos(angle), sine = sin(angle);
  return {elements("relu", relu, define::relu),
          elements("gelu_tanh", gelu_tanh, define::gelu_tanh),
          elements("gelu", gelu, define::gelu),
          elements("silu", silu, define::silu),
          elements("softplus", softplus, define::softplus),
          elements("softsign", softsign, define::softsign),
          elements("hardswish", hardswish, define::hardswish),
          elements("mish", mish, define::mish),
          {"elu", {kWide}, [](Xs x) { return elu(x[0]); }, [](Xs x) { return define::elu(x[0], 1); }},
          {"leaky_relu",
           {kWide},
           [](Xs x) { return leaky_relu(x[0]); },
           [](Xs x) { return define::leaky_relu(x[0], 0.01); }},
          {"softmax",
           {rows},
           [](Xs x) { return softmax(x[0], -1); },
           [](Xs x) { return define::softmax(x[0], -1); }},
          {"log_softmax",
           {rows},
           [](Xs x) { return log_softmax(x[0], -1); },
           [](Xs x) { return define::log_softmax(x[0], -1); }},
          {"log_sum_exp",
           {rows},
           [](Xs x) { return log_sum_exp(x[0], {-1}); },
           [](Xs x) { return define::log_sum_exp(x[0], {-1}); }},
          {"layer_norm",
           {{4096, 768}, {768}, {768}},
           [](Xs x) { return layer_norm(x[0], x[1], x[2]); },
           [](Xs x) { return define::layer_norm(x[0], x[1], x[2], 1e-5); }},
          {"rms_norm",
           {{4096, 768}, {768}},
           [](Xs x) { return rms_norm(x[0], x[1]); },
           [](Xs x) { return define::rms_norm(x[0], x[1], 1e-5); }},
          {"add_layer_norm",
           {{4096, 768}, {4096, 768}, {768}, {768}},
           [](Xs x) { return add_layer_norm(x[0], x[1], x[2], x[3]).y(); },
           [](Xs x) { return define::add_layer_norm(x[0], x[1], x[2], x[3], 1e-5).y(); }},
          {"add_rms_norm",
           {{4096, 768}, {4096, 768}, {768}},
           [](Xs x) { return add_rms_norm(x[0], x[1], x[2]).y(); },
           [](Xs x) { return define::add_rms_norm(x[0], x[1], x[2], 1e-5).y(); }},
          {"rotary",
           {{4, 6, 1024, 64}},
           [cosine, sine](Xs x) { return rotary(x[0], cosine, sine); },
           [cosine, sine](Xs x) { return define::rotary(x[0], cosine, sine, false); }},
          {"linear",
           {{768, 768}, {3072, 768}, {3072}},
           [](Xs x) { return linear(x[0], x[1], x[2]); },
           [](Xs x) { return define::linear(x[0], x[1], x[2]); }},
          {"linear_gelu_tanh",
           {{768, 768}, {3072, 768}, {3072}},
           [](Xs x) { return linear_gelu_tanh(x[0], x[1], x[2]); },
           [](Xs x) { return define::linear_gelu_tanh(x[0], x[1], x[2]); }},
          {"cross_entropy",
           {{2048, 50257}},
           [targets](Xs x) { return cross_entropy(x[0], targets); },
           [targets](Xs x) { return define::cross_entropy(x[0], targets, {}); }},
          attention_case("attention", {4, 6, 1024, 64}, AttentionRead::mean),
          attention_case("attention middle", {8, 6, 256, 64}, AttentionRead::mean),
          attention_case("attention short", {12, 4, 64, 32}, AttentionRead::mean),
          attention_case("laser", {4, 6, 256, 64}, AttentionRead::laser),
          attention_case("laser short", {12, 4, 64, 32}, AttentionRead::laser),
          {"dropout",
           {rows},
           [](Xs x) { return dropout(x[0], 0.1); },
           [](Xs x) { return define::dropout(x[0], 0.1, Draw{.seed = 1}); }}};
}

double time_of(const std::function<void()>& f) {
  const double start = bench::seconds();
  f();
  return bench::seconds() - start;
}

struct Pair {
  double kernel, definition;  // seconds, medians
};

/// The second of two calls counts: the first still finds the other contender's tensors in the
/// caches.
Pair alternate(const std::function<void()>& kernel, const std::function<void()>& definition, double budget) {
  std::vector<double> a, b;
  const double end = bench::seconds() + 4 * budget;
  while (a.size() < 5 || bench::seconds() < end) {
    kernel();
    a.push_back(time_of(kernel));
    definition();
    b.push_back(time_of(definition));
  }
  return {bench::median(a), bench::median(b)};
}

void measure(const Case& c, double budget, const nlohmann::json& torch) {
  std::vector<Tensor> x;
  Tensor dy;
  // The first is normal, the following ones are as small as weights, so that products of them are
  // of its size again.
  for (const Shape& shape : c.shapes)
    x.push_back(randn(shape) * (x.empty() ? 1 : 1 / std::sqrt(static_cast<double>(shape[shape.rank() - 1]))));
  dy = ones_like(c.kernel(x));
  const auto both = [&](const Call& call) {
    Tape tape;
    for (const Tensor& t : x) tape.watch(t);
    tape.gradient({call(x)}, x, {dy});
  };
  const Pair forward = alternate([&] { c.kernel(x); }, [&] { c.definition(x); }, budget);
  const Pair all = alternate([&] { both(c.kernel); }, [&] { both(c.definition); }, budget);
  const auto against_torch = [&](int i, double ours) {
    return torch.contains(c.name) ? fmt::format("{:.2f}x", torch[c.name][i].get<double>() / ours)
                                  : std::string("-");
  };
  std::string shape = fmt::format("{}", c.shapes[0]);
  fmt::print("{:<17}{:<15}{:>10.2f}{:>11.1f}x{:>10}{:>12.2f}{:>11.1f}x{:>10}\n", c.name, shape,
             1e3 * forward.kernel, forward.definition / forward.kernel, against_torch(0, forward.kernel),
             1e3 * all.kernel, all.definition / all.kernel, against_torch(1, all.kernel));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Each kernel op against its definition and against PyTorch, forward and with backward");
  std::string only;
  double budget = 1;
  int count = 2;
  app.add_option("--only", only, "Only this op");
  app.add_option("--seconds", budget, "Time for each figure")->capture_default_str();
  app.add_option("--threads", count, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  set_threads(count);

  const std::string peer = bench::pytorch("ops.py");
  fmt::print("{:<17}{:<15}{:>10}{:>12}{:>10}{:>12}{:>12}{:>10}\n", "op", "x", "ms", "definition", "PyTorch",
             "ms with dx", "definition", "PyTorch");
  for (const Case& c : cases()) {
    if (!only.empty() && c.name != only) continue;
    nlohmann::json torch;
    if (!peer.empty())
      torch = bench::run_for_json(
          fmt::format("{} --threads {} --seconds {} --only '{}'", peer, count, budget, c.name));
    measure(c, budget, torch);
  }
  return 0;
}
