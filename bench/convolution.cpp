// Convolutions and pools against their definitions, and convolutions against a matrix product of as
// many operations: forward, and forward with backward, float32. The contenders alternate, so that a
// disturbance affects all. Medians count.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/convolution.h"
#include "ops/matmul.h"
#include "ops/pooling.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

using Xs = const std::vector<Tensor>&;
using Call = std::function<Tensor(Xs)>;

struct Case {
  std::string name;
  std::vector<Shape> shapes;
  Call kernel, definition;
  /// [rows, inner] and [inner, columns] of a product with as many multiplications; empty: none
  std::vector<Shape> product;
};

/// The product is y [O/groups, windows of all images] = weights · columns, once for each group.
Case image(const std::string& name, const Shape& x, const Shape& weight, const Conv2dOptions& o) {
  const auto conv = [o](Xs t) { return conv2d(t[0], t[1], {}, o); };
  const int64_t windows = conv({zeros(x), zeros(weight)}).numel() / weight[0],
                depth = numel(weight) / weight[0];
  return {name,
          {x, weight},
          conv,
          [o](Xs t) { return define::conv2d(t[0], t[1], {}, o); },
          {{o.groups, weight[0] / o.groups, depth}, {o.groups, depth, windows}}};
}

std::vector<Case> cases() {
  const auto max_pool = [](Xs x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); };
  return {image("3x3", {8, 64, 56, 56}, {64, 64, 3, 3}, {.padding = 1}),
          image("3x3, small images", {32, 256, 7, 7}, {256, 256, 3, 3}, {.padding = 1}),
          image("3x3, stride 2", {8, 64, 56, 56}, {128, 64, 3, 3}, {.stride = 2, .padding = 1}),
          image("3x3, 4 groups", {8, 64, 56, 56}, {64, 16, 3, 3}, {.padding = 1, .groups = 4}),
          image("1x1", {8, 64, 56, 56}, {256, 64, 1, 1}, {}),
          image("patches of 16", {8, 3, 224, 224}, {384, 3, 16, 16}, {.stride = 16}),
          image("sequence, 5", {8, 128, 1, 1000}, {128, 128, 1, 5}, {.padding = {0, 2}}),
          image("depthwise 3x3", {8, 64, 56, 56}, {64, 1, 3, 3}, {.padding = 1, .groups = 64}),
          image("depthwise 31", {8, 256, 1, 1000}, {256, 1, 1, 31}, {.padding = {0, 15}, .groups = 256}),
          {"causal_conv1d",
           {{8, 1000, 256}, {256, 4}},
           [](Xs x) { return causal_conv1d(x[0], x[1]); },
           [](Xs x) {
             const Tensor taps = reshape(x[1], {x[1].size(0), 1, 1, x[1].size(1)});
             const Conv2dOptions o{.padding = {0, Padding(3, 0)}, .groups = x[1].size(0)};
             return transpose(squeeze(define::conv2d(unsqueeze(transpose(x[0]), 2), taps, {}, o), {2}));
           },
           {}},
          {"max_pool2d 3",
           {{8, 64, 56, 56}},
           max_pool,
           [](Xs x) { return define::max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); },
           {}}};
}

/// The median times of alternating calls, in seconds. The second of two calls in a row counts: the
/// first one still finds the tensors of another contender in the caches.
std::vector<double> alternate(const std::vector<std::function<void()>>& contenders, double budget) {
  std::vector<std::vector<double>> times(contenders.size());
  const double end = bench::seconds() + 2 * budget * static_cast<double>(contenders.size());
  while (times[0].size() < 5 || bench::seconds() < end)
    for (size_t i = 0; i < contenders.size(); ++i) {
      contenders[i]();
      const double start = bench::seconds();
      contenders[i]();
      times[i].push_back(bench::seconds() - start);
    }
  std::vector<double> medians;
  for (const auto& t : times) medians.push_back(bench::median(t));
  return medians;
}

std::vector<Tensor> drawn(const std::vector<Shape>& shapes) {
  std::vector<Tensor> x;
  for (const Shape& shape : shapes) x.push_back(randn(shape));
  return x;
}

/// y, or y and the gradients of all inputs.
std::function<void()> work(const Call& call, const std::vector<Tensor>& x, bool backward) {
  if (!backward) return [call, x] { call(x); };
  return [call, x, dy = ones_like(call(x))] {
    Tape tape;
    for (const Tensor& t : x) tape.watch(t);
    tape.gradient({call(x)}, x, {dy});
  };
}

void measure(const Case& c, double budget) {
  const std::vector<Tensor> x = drawn(c.shapes), factors = drawn(c.product);
  fmt::print("{:<20}{:<18}", c.name, fmt::format("{}", c.shapes[0]));
  for (const bool backward : {false, true}) {
    std::vector<std::function<void()>> contenders = {work(c.kernel, x, backward),
                                                     work(c.definition, x, backward)};
    if (!factors.empty())
      contenders.push_back(work([](Xs t) { return matmul(t[0], t[1]); }, factors, backward));
    const auto t = alternate(contenders, budget);
    fmt::print("{:>10.2f}{:>11.1f}x{:>10}", 1e3 * t[0], t[1] / t[0],
               t.size() > 2 ? fmt::format("{:.0f} %", 100 * t[2] / t[0]) : std::string("-"));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Convolutions and pools against their definitions and against products of the same size");
  std::string only;
  double budget = 0.5;
  int count = 2;
  app.add_option("--only", only, "Only this case");
  app.add_option("--seconds", budget, "Time for each figure")->capture_default_str();
  app.add_option("--threads", count, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  set_threads(count);
  fmt::print("{:<20}{:<18}{:>10}{:>12}{:>10}{:>10}{:>12}{:>10}\n", "case", "x", "ms", "definition", "of rate",
             "ms with dx", "definition", "of rate");
  fmt::print("of rate: the share of the rate of a product with as many operations\n");
  for (const Case& c : cases())
    if (only.empty() || c.name == only) measure(c, budget);
  return 0;
}
