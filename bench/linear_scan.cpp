// Linear recurrences against their definitions and against fused causal softmax attention, forward
// and backward, for sequences of growing length. Runs alternate, so that a disturbance affects all
// of them. One thread is measured by its CPU time, all threads by wall-clock time, a GPU by events;
// a row gives medians. A definition keeps the states of all positions, so it runs up to 1,024 of
// them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/gpu.h"
#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear_scan.h"
#include "ops/selective_scan.h"
#include "ops/view.h"

using namespace vitrine;
using bench::seconds;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Settings {
  int rounds = 5, threads = 1;
  int64_t batch = 1, heads = 8, size = 64, longest = 16384;
  bool gpu = false, half = false;  ///< half: the operands that may have 16 bits are bfloat16

  Device device() const { return gpu ? Device::cuda : Device::cpu; }
  DType dtype() const { return half ? DType::bfloat16 : DType::float32; }
};

/// Times of one function: forward, and forward with backward.
struct Times {
  std::vector<double> forward, both;

  void add(const Function& f, const std::vector<Tensor>& x, const Tensor& dy, const Settings& set) {
    Tape tape;
    for (const Tensor& t : x) tape.watch(t);
    if (set.gpu) return add_events(tape, f, x, dy);
    const clockid_t clock = set.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start = seconds(clock);
    const Tensor y = f(x);
    forward.push_back(seconds(clock) - start);
    tape.gradient({y}, x, {dy});
    both.push_back(seconds(clock) - start);
  }

 private:
  void add_events(Tape& tape, const Function& f, const std::vector<Tensor>& x, const Tensor& dy) {
    Event start(Device::cuda), middle(Device::cuda), end(Device::cuda);
    start.record();
    const Tensor y = f(x);
    middle.record();
    tape.gradient({y}, x, {dy});
    end.record();
    forward.push_back(1e-3 * middle.milliseconds_since(start));
    both.push_back(1e-3 * end.milliseconds_since(start));
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
Row linear(const std::string& name, const Settings& set, int decay_axes, bool erases) {
  const auto inputs = [=](int64_t time) {
    const Shape shape{set.batch, set.heads, time, set.size};
    const auto drawn = [&](double scale) {
      return cast(randn(shape, DType::float32, set.device()) * scale, set.dtype());
    };
    std::vector<Tensor> x = {drawn(1), drawn(1), drawn(1)};
    const Shape decays = decay_axes == 4 ? shape : Shape{set.batch, set.heads, time};
    if (decay_axes > 0) x.push_back(rand(decays, DType::float32, set.device()) * -0.1);
    if (erases) x.push_back(drawn(-0.01)), x.push_back(drawn(0.1));
    return x;
  };
  return {name, inputs, scan_of(linear_scan, decay_axes > 0, erases),
          scan_of(define::linear_scan, decay_axes > 0, erases)};
}

Row selective(const Settings& set, int64_t states) {
  const auto inputs = [=](int64_t time) {
    const int64_t channels = set.heads * set.size;
    const Shape u{set.batch, time, channels}, b{set.batch, time, states};
    const auto drawn = [&](const Shape& shape) {
      return cast(randn(shape, DType::float32, set.device()), set.dtype());
    };
    const auto uniform = [&](const Shape& shape) { return rand(shape, DType::float32, set.device()); };
    return std::vector<Tensor>{drawn(u), cast(uniform(u) * 0.1, set.dtype()),
                               uniform({channels, states}) * -4.0, drawn(b), drawn(b)};
  };
  const auto of = [](auto scan) {
    return [=](const std::vector<Tensor>& x) { return scan(x[0], x[1], x[2], x[3], x[4], {}).y; };
  };
  return {"selective scan", inputs, of(selective_scan), of(define::selective_scan)};
}

std::string ratio(const std::vector<double>& other, const std::vector<double>& ours) {
  return other.empty() ? "-" : fmt::format("{:.2f}", bench::median(other) / bench::median(ours));
}

void measure(const Row& row, int64_t time, const Settings& set) {
  const std::vector<Tensor> x = row.inputs(time);
  const auto drawn = [&](const Shape& shape) {
    return cast(randn(shape, DType::float32, set.device()), set.dtype());
  };
  const Tensor dy = drawn(row.kernel(x).shape());
  const Shape shape{set.batch, set.heads, time, set.size};
  const std::vector<Tensor> heads = {drawn(shape), drawn(shape), drawn(shape)};
  const Tensor dheads = drawn(shape);
  AttentionOptions causal;
  causal.causal = true;
  Times kernel, definition, softmax;
  for (int round = 0; round < set.rounds; ++round) {
    kernel.add(row.kernel, x, dy, set);
    if (time <= 1024 && round < 3) definition.add(row.definition, x, dy, set);
    softmax.add([&](const auto& in) { return attention(in[0], in[1], in[2], causal); }, heads, dheads, set);
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
  Settings set;
  app.add_option("--rounds", set.rounds, "runs of each row")->check(CLI::PositiveNumber);
  app.add_option("--threads", set.threads, "1 measures CPU time, more measure wall-clock time")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", set.batch, "sequences")->check(CLI::PositiveNumber);
  app.add_option("--heads", set.heads, "heads")->check(CLI::PositiveNumber);
  app.add_option("--size", set.size, "channels of a head")->check(CLI::PositiveNumber);
  app.add_option("--longest", set.longest, "the longest sequence")->check(CLI::PositiveNumber);
  app.add_flag("--gpu", set.gpu, "on a GPU");
  app.add_flag("--bfloat16", set.half, "operands of 16 bits; decays and states stay float32");
  CLI11_PARSE(app, argc, argv);
  if (set.gpu && !bench::has_gpu()) return 0;
  set_threads(set.threads);
  fmt::print("{} sequences, {} heads of {}, {}, {}\n", set.batch, set.heads, set.size, name(set.dtype()),
             set.gpu ? "on a GPU" : fmt::format("{} thread(s), {}", set.threads, name(isa())));
  fmt::print("{:<22}{:>7}{:>11}{:>9}{:>9}{:>11}{:>9}{:>9}\n", "", "T", "forward ms", "def. x", "attn. x",
             "with bwd", "def. x", "attn. x");
  const std::vector<Row> rows = {
      linear("linear attention", set, 0, false), linear("decay per position", set, 3, false),
      linear("decay per row", set, 4, false), linear("gated delta rule", set, 3, true), selective(set, 16)};
  for (const Row& row : rows)
    for (int64_t time = 256; time <= set.longest; time *= 4) measure(row, time, set);
}
