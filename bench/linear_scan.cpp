// Linear recurrences against their definitions and against fused causal softmax attention, forward
// and backward, for sequences of growing length. Runs alternate, so that a disturbance affects all
// of them. One thread is measured by its CPU time, all threads by wall-clock time; a row gives
// medians. A definition keeps the states of all positions, so it runs up to 1,024 of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear_scan.h"
#include "ops/selective_scan.h"

using namespace vitrine;
using bench::seconds;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// Times of one function: forward, and forward with backward.
struct Times {
  std::vector<double> forward, both;

  void add(const Function& f, const std::vector<Tensor>& x, const Tensor& dy, clockid_t clock) {
    Tape tape;
    for (const Tensor& t : x) tape.watch(t);
    const double start = seconds(clock);
    const Tensor y = f(x);
    forward.push_back(seconds(clock) - start);
    tape.gradient({y}, x, {dy});
    both.push_back(seconds(clock) - start);
  }
};

/// A recurrence: its inputs for a length, its kernel and its definition.
struct Row {
  std::string name;
  std::function<std::vector<Tensor>(int64_t time)> inputs;
  Function kernel, definition;
};

template <class Scan>
Function scan_of(Scan scan, bool decays, bool erases) {
  return [=](const std::vector<Tensor>& x) {
    LinearScanOptions o;
    if (decays) o.log_decay = x[3];
    if (erases) o.erase_to = x[x.size() - 2], o.erase_from = x[x.size() - 1];
    return scan(x[0], x[1], x[2], o).o;
  };
}

/// `decay_axes`: 0 without decay, 3 for one per position, 4 for one per row of the state.
Row linear(const std::string& name, int64_t heads, int64_t size, int decay_axes, bool erases) {
  const auto inputs = [=](int64_t time) {
    const Shape shape{1, heads, time, size};
    std::vector<Tensor> x = {randn(shape), randn(shape), randn(shape)};
    if (decay_axes > 0) x.push_back(rand(decay_axes == 4 ? shape : Shape{1, heads, time}) * -0.1);
    if (erases) x.push_back(randn(shape) * -0.01), x.push_back(randn(shape) * 0.1);
    return x;
  };
  return {name, inputs, scan_of(linear_scan, decay_axes > 0, erases),
          scan_of(define::linear_scan, decay_axes > 0, erases)};
}

Row selective(int64_t channels, int64_t states) {
  const auto inputs = [=](int64_t time) {
    const Shape u{1, time, channels}, b{1, time, states};
    return std::vector<Tensor>{randn(u), rand(u) * 0.1, rand({channels, states}) * -4.0, randn(b), randn(b)};
  };
  const auto of = [](auto scan) {
    return [=](const std::vector<Tensor>& x) { return scan(x[0], x[1], x[2], x[3], x[4], {}).y; };
  };
  return {"selective scan", inputs, of(selective_scan), of(define::selective_scan)};
}

std::string ratio(const std::vector<double>& other, const std::vector<double>& ours) {
  return other.empty() ? "-" : fmt::format("{:.2f}", bench::median(other) / bench::median(ours));
}

void measure(const Row& row, int64_t time, int64_t heads, int64_t size, int rounds, clockid_t clock) {
  const std::vector<Tensor> x = row.inputs(time);
  const Tensor dy = randn(row.kernel(x).shape());
  const std::vector<Tensor> heads_of = {randn({1, heads, time, size}), randn({1, heads, time, size}),
                                        randn({1, heads, time, size})};
  const Tensor dheads = randn(heads_of[0].shape());
  AttentionOptions causal;
  causal.causal = true;
  Times kernel, definition, softmax;
  for (int round = 0; round < rounds; ++round) {
    kernel.add(row.kernel, x, dy, clock);
    if (time <= 1024 && round < 3) definition.add(row.definition, x, dy, clock);
    softmax.add([&](const auto& in) { return attention(in[0], in[1], in[2], causal); }, heads_of, dheads,
                clock);
  }
  fmt::print("{:<22}{:>7}{:>11.3f}{:>9}{:>9}{:>11.3f}{:>9}{:>9}\n", row.name, time,
             1e3 * bench::median(kernel.forward), ratio(definition.forward, kernel.forward),
             ratio(softmax.forward, kernel.forward), 1e3 * bench::median(kernel.both),
             ratio(definition.both, kernel.both), ratio(softmax.both, kernel.both));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Linear recurrences: milliseconds, and the time of the definition and of attention as multiples");
  int rounds = 5, count = 1;
  int64_t heads = 8, size = 64, longest = 16384;
  app.add_option("--rounds", rounds, "runs of each row")->check(CLI::PositiveNumber);
  app.add_option("--threads", count, "1 measures CPU time, more measure wall-clock time")
      ->check(CLI::PositiveNumber);
  app.add_option("--heads", heads, "heads")->check(CLI::PositiveNumber);
  app.add_option("--size", size, "channels of a head")->check(CLI::PositiveNumber);
  app.add_option("--longest", longest, "the longest sequence")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  set_threads(count);
  fmt::print("{} heads of {}, float32, {} thread(s), {}\n", heads, size, count, name(isa()));
  fmt::print("{:<22}{:>7}{:>11}{:>9}{:>9}{:>11}{:>9}{:>9}\n", "", "T", "forward ms", "def. x", "attn. x",
             "with bwd", "def. x", "attn. x");
  const std::vector<Row> rows = {
      linear("linear attention", heads, size, 0, false), linear("decay per position", heads, size, 3, false),
      linear("decay per row", heads, size, 4, false), linear("gated delta rule", heads, size, 3, true),
      selective(heads * size, 16)};
  for (const Row& row : rows)
    for (int64_t time = 256; time <= longest; time *= 4)
      measure(row, time, heads, size, rounds, count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}
