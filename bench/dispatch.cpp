// The cost of a call with almost no computation: nanoseconds per op on small float32 tensors,
// without a tape, recorded on a tape, and with the backward; next to the same in PyTorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/process.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

constexpr int kChain = 32;  // ops that follow one another: y = f(f(…f(x)))

struct Case {
  const char* name;  // also that of bench/pytorch/dispatch.py
  std::function<Tensor(const Tensor& y, const Tensor& w)> f;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"add", [](const Tensor& y, const Tensor& w) { return y + w; }},
      {"multiply by 2", [](const Tensor& y, const Tensor&) { return y * 2; }},
      {"tanh", [](const Tensor& y, const Tensor&) { return tanh(y); }},
      {"transpose", [](const Tensor& y, const Tensor&) { return transpose(y, 0, 1); }},
      {"softmax", [](const Tensor& y, const Tensor&) { return softmax(y, -1); }},
      {"layer_norm", [](const Tensor& y, const Tensor&) { return layer_norm(y); }},
      {"matmul", [](const Tensor& y, const Tensor& w) { return matmul(y, w); }}};
  return list;
}

/// Nanoseconds per op of a chain, the median of many.
double nanoseconds(double budget, const std::function<void()>& chain) {
  chain();
  std::vector<double> times;
  const double end = bench::seconds() + budget;
  while (times.size() < 5 || bench::seconds() < end) {
    const double start = bench::seconds();
    chain();
    times.push_back(bench::seconds() - start);
  }
  return 1e9 * bench::median(times) / kChain;
}

struct Costs {
  double bare, recorded, backward;
};

Costs measure(const Case& c, int64_t n, double budget) {
  const Tensor x = randn({n, n}), w = randn({n, n}), dy = ones({n, n});
  const auto chain = [&] {
    Tensor y = x;
    for (int i = 0; i < kChain; ++i) y = c.f(y, w);
    return y;
  };
  Costs costs{};
  costs.bare = nanoseconds(budget, [&] { chain(); });
  costs.recorded = nanoseconds(budget, [&] {
    Tape tape;
    tape.watch(x);
    chain();
  });
  costs.backward = nanoseconds(budget, [&] {
    Tape tape;
    tape.watch(x);
    tape.gradient({chain()}, {x}, {dy});
  });
  return costs;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What a call costs on small tensors");
  int64_t n = 8;
  double budget = 0.3;
  int count = 2;
  app.add_option("--n", n, "The tensors are n × n")->capture_default_str();
  app.add_option("--seconds", budget, "Time for each figure")->capture_default_str();
  app.add_option("--threads", count, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  set_threads(count);

  const std::string peer = bench::pytorch("dispatch.py");
  nlohmann::json torch;
  if (!peer.empty())
    torch = bench::run_for_json(
        fmt::format("{} --threads {} --seconds {} --n {} --chain {}", peer, count, budget, n, kChain));
  fmt::print("ns per op on [{0}, {0}] in chains of {1}; x: PyTorch's time over ours\n\n", n, kChain);
  fmt::print("{:<15}{:>8}{:>9}{:>12}{:>9}{:>18}{:>9}\n", "op", "bare", "", "recorded", "", "with backward",
             "");
  for (const Case& c : cases()) {
    const Costs ours = measure(c, n, budget);
    const auto ratio = [&](int i, double own) {
      return torch.is_null() ? std::string("-")
                             : fmt::format("{:.1f}x", torch.at(c.name).at(i).get<double>() / own);
    };
    fmt::print("{:<15}{:>8.0f}{:>9}{:>12.0f}{:>9}{:>18.0f}{:>9}\n", c.name, ours.bare, ratio(0, ours.bare),
               ours.recorded, ratio(1, ours.recorded), ours.backward, ratio(2, ours.backward));
  }
}
