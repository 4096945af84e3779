// Fused attention against its definition, forward and backward, on heads that are split from one
// projection of queries, keys and values. Runs alternate, so that a disturbance affects both. One
// thread is measured by its CPU time, all threads by wall-clock time; the best of all runs counts.
// With --gpu both are measured one after the other, by events of the GPU, and the median counts.
// The share of the peak counts only visible products: four multiply-adds per channel and visible
// pair in the forward, ten in the backward, which computes the scores again. A bias and a sink have
// gradients. The last rows are the scores of additive attention alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/gpu.h"
#include "bench/measure/limits.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "ops/additive_scores.h"
#include "ops/attention.h"
#include "ops/toeplitz.h"
#include "ops/view.h"

using namespace vitrine;
using bench::seconds;

namespace {

using Function = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);

/// The scores of additive attention of q and k; v gives the weights of the hidden values.
template <Tensor (*scores)(const Tensor&, const Tensor&, const Tensor&)>
Tensor additive(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions&) {
  return scores(q, k, select(v, 2, 0));
}

struct Case {
  std::string name;
  Shape heads;  // [B, H, T, D]
  AttentionOptions options;
  bool define = true;  // LASER's definition holds [B, H, T, T, D]
  Function fused = attention, definition = define::attention;

  double pairs() const {
    const double T = static_cast<double>(heads[2]);
    double seen = T * T;
    if (options.causal) {
      const double width = std::min(T, static_cast<double>(options.left) + 1);
      seen = width * (width + 1) / 2 + (T - width) * (width + static_cast<double>(options.first));
    }
    return static_cast<double>(heads[0] * heads[1]) * seen;
  }
};

std::vector<Case> cases(Device device) {
  AttentionOptions causal, window, first, capped, laser, biased, sink;
  causal.causal = window.causal = first.causal = capped.causal = laser.causal = biased.causal = sink.causal =
      true;
  biased.bias = toeplitz(randn({6, 2 * 1024 - 1}, DType::float32, device), 1024);
  sink.sink = zeros({6}, DType::float32, device);
  window.left = first.left = 128, first.first = 4;
  capped.softcap = 30;
  laser.read = AttentionRead::laser;
  return {{"short", {12, 4, 64, 32}, causal},
          {"one batch", {4, 12, 64, 64}, causal},
          {"middle", {8, 6, 256, 64}, causal},
          {"long", {4, 6, 1024, 64}, causal},
          {"long, all keys", {4, 6, 1024, 64}, {}},
          {"long, window", {4, 6, 1024, 64}, window},
          {"long, first keys", {4, 6, 1024, 64}, first},
          {"long, softcap", {4, 6, 1024, 64}, capped},
          {"long, bias", {4, 6, 1024, 64}, biased},
          {"long, sink", {4, 6, 1024, 64}, sink},
          {"laser short", {12, 4, 64, 32}, laser},
          {"laser long", {4, 6, 1024, 64}, laser, false},
          {"additive short",
           {12, 4, 64, 32},
           {},
           true,
           additive<additive_scores>,
           additive<define::additive_scores>},
          {"additive middle",
           {2, 4, 256, 32},
           {},
           true,
           additive<additive_scores>,
           additive<define::additive_scores>}};
}

/// Best seconds of forward, and of backward.
struct Timing {
  double forward = 1e300, backward = 1e300;
};

/// q, k and v as views of [B, T, 3, H, D].
std::vector<Tensor> split(const Tensor& qkv) {
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) parts.push_back(permute(select(qkv, 2, i), {0, 2, 1, 3}));
  return parts;
}

void time_once(Function f, std::vector<Tensor> x, const AttentionOptions& o, clockid_t clock, Timing& best) {
  Tape tape;
  for (const Tensor& t : {o.bias, o.sink})
    if (t.defined()) x.push_back(t);
  for (const Tensor& t : x) tape.watch(t);
  const double start = seconds(clock);
  const Tensor y = f(x[0], x[1], x[2], o);
  best.forward = std::min(best.forward, seconds(clock) - start);
  const Tensor dy = randn(y.shape(), y.dtype());
  const double middle = seconds(clock);
  tape.gradient({y}, x, {dy});
  best.backward = std::min(best.backward, seconds(clock) - middle);
}

std::string ratio(double ours, double definition) {
  return definition < 1e200 ? fmt::format("{:.2f}", definition / ours) : "-";
}

/// q, k and v for a case.
std::vector<Tensor> operands(const Case& c, DType dtype, Device device) {
  return split(randn({c.heads[0], c.heads[2], 3, c.heads[1], c.heads[3]}, dtype, device));
}

Timing time_on_gpu(Function f, std::vector<Tensor> x, const AttentionOptions& o) {
  constexpr int kRuns = 3, kRepeats = 9;
  const auto forward = [&] { return f(x[0], x[1], x[2], o); };
  const double seconds = bench::gpu_seconds([&] { forward(); }, kRuns, kRepeats);
  Tape tape;
  const Tensor q = x[0], k = x[1], v = x[2];
  for (const Tensor& t : {o.bias, o.sink})
    if (t.defined()) x.push_back(t);
  for (const Tensor& t : x) tape.watch(t);
  const Tensor y = f(q, k, v, o), dy = randn(y.shape(), y.dtype(), y.device());
  return {seconds, bench::gpu_seconds([&] { tape.gradient({y}, x, {dy}, Keep::yes); }, kRuns, kRepeats)};
}

void measure_on_gpu(const Case& c, DType dtype) {
  const std::vector<Tensor> x = operands(c, dtype, Device::cuda);
  const Timing fused = time_on_gpu(c.fused, x, c.options),
               definition = c.define ? time_on_gpu(c.definition, x, c.options) : Timing{};
  fmt::print("{:<16}{:>12.3f}{:>8}{:>12.3f}{:>8}\n", c.name, 1e3 * fused.forward,
             ratio(fused.forward, definition.forward), 1e3 * fused.backward,
             ratio(fused.backward, definition.backward));
  std::fflush(stdout);
}

void measure(const Case& c, DType dtype, int count, double peak, double budget) {
  set_threads(count);
  const clockid_t clock = count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const std::vector<Tensor> x = operands(c, dtype, Device::cpu);
  Timing fused, definition;
  const double end = seconds() + budget;
  for (int round = 0; round < 5 || seconds() < end; ++round) {
    time_once(c.fused, x, c.options, clock, fused);
    if (c.define) time_once(c.definition, x, c.options, clock, definition);
  }
  const double flops = c.pairs() * static_cast<double>(c.heads[3]);
  const auto share = [&](double per_pair, double time) {
    return c.fused == attention ? fmt::format("{:.0f}%", 100 * per_pair * flops / time / (peak * count))
                                : "-";
  };
  fmt::print("{:<16}{:>4}{:>12.3f}{:>8}{:>8}{:>12.3f}{:>8}{:>8}\n", c.name, count, 1e3 * fused.forward,
             ratio(fused.forward, definition.forward), share(4, fused.forward), 1e3 * fused.backward,
             ratio(fused.backward, definition.backward), share(10, fused.backward));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Fused attention against its definition: milliseconds, ratio, and share of the peak of multiply-adds");
  double budget = 0.5;
  int most = threads();
  std::string only;
  bool gpu = false, bfloat16 = false;
  app.add_option("--seconds", budget, "Time for each row")->capture_default_str();
  app.add_option("--threads", most, "Threads of the second half of the rows")->capture_default_str();
  app.add_option("--only", only, "Only rows whose name begins so");
  app.add_flag("--gpu", gpu, "Measure on a GPU");
  app.add_flag("--bfloat16", bfloat16, "Queries, keys and values have 16 bits");
  CLI11_PARSE(app, argc, argv);

  const DType dtype = bfloat16 ? DType::bfloat16 : DType::float32;
  if (gpu) {
    if (!bench::has_gpu()) return 0;
    fmt::print("{:<16}{:>12}{:>8}{:>12}{:>8}\n", "attention", "forward ms", "ratio", "backward ms", "ratio");
    for (const Case& c : cases(Device::cuda))
      if (c.name.starts_with(only)) measure_on_gpu(c, dtype);
    return 0;
  }
  const double peak =
      bfloat16 && bench::bfloat16_peak() > 0 ? bench::bfloat16_peak() : bench::multiply_add_peak();
  fmt::print("{}, {}, peak of one thread {:.1f} GFLOP/s\n\n{:<16}{:>4}{:>12}{:>8}{:>8}{:>12}{:>8}{:>8}\n",
             name(isa()), name(dtype), peak * 1e-9, "attention", "thr", "forward ms", "ratio", "peak",
             "backward ms", "ratio", "peak");
  for (int count : std::vector<int>(most > 1 ? std::vector<int>{1, most} : std::vector<int>{1}))
    for (const Case& c : cases(Device::cpu))
      if (c.name.starts_with(only)) measure(c, dtype, count, peak, budget);
}
