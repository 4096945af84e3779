// Attention on a GPU, forward and backward, standard and LASER: TFLOP/s, next to PyTorch's
// scaled_dot_product_attention if torch with CUDA is installed. As in the papers on flash
// attention, 2048 channels are divided into heads, and 16384 tokens into sequences; causal,
// bfloat16. Only products of visible pairs are counted: four multiply-adds per channel and pair in
// the forward, ten in the backward. A second table compares the steps of the ladder
// (cuda/attention/).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measure/gpu.h"
#include "bench/measure/markdown.h"
#include "bench/measure/process.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/view.h"

#if VITRINE_CUDA_KERNELS
#include "cuda/attention/steps.h"
#endif

using namespace vitrine;

namespace {

struct Size {
  int64_t channels = 2048, tokens = 16384, D = 64, T = 1024;

  int64_t heads() const { return channels / D; }
  int64_t batch() const { return tokens / T; }
  /// Of the two products forward; backward has five.
  double operations() const {
    return 4.0 * static_cast<double>(batch() * heads() * D) * static_cast<double>(T) *
           static_cast<double>(T + 1) / 2;
  }
};

struct Times {
  double forward = 0, backward = 0;
};

using Function = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);

/// y, and the gradients of q, k and v.
std::vector<Tensor> run(Function f, const std::vector<Tensor>& x, const Tensor& dy,
                        const AttentionOptions& options) {
  Tape tape;
  for (const Tensor& t : x) tape.watch(t);
  const Tensor y = f(x[0], x[1], x[2], options);
  std::vector<Tensor> results = tape.gradient({y}, x, {dy});
  results.push_back(y);
  return results;
}

/// Fails unless the last head's last rows are what the definition gives in float32. Those queries
/// alone see those keys, so that they make their gradients as well.
void check_last_rows(const std::vector<Tensor>& x, const Tensor& dy, const AttentionOptions& options) {
  const int64_t T = dy.size(2), rows = std::min<int64_t>(T, 32), b = dy.size(0) - 1, h = dy.size(1) - 1;
  const auto last = [&](const Tensor& t, int64_t count) {
    return slice(slice(slice(t, 0, b, b + 1), 1, h, h + 1), 2, t.size(2) - count, t.size(2));
  };
  const auto wide = [&](const Tensor& t, int64_t count) { return copy_as(last(t, count), DType::float32); };
  const auto got = run(attention, x, dy, options);
  const auto want =
      run(define::attention, {wide(x[0], rows), wide(x[1], T), wide(x[2], T)}, wide(dy, rows), options);
  const char* const names[] = {"dq", "dk", "dv", "y"};
  for (size_t i = 0; i < want.size(); ++i) {
    const Tensor same_rows = slice(want[i], 2, want[i].size(2) - rows, want[i].size(2));
    const double off = distance(last(got[i], rows).values(), same_rows.values(), 1e-3);
    check(off <= 4 * epsilon(DType::bfloat16), "attention: {} is off by {:.2g}", names[i], off);
  }
}

Tensor draw(const Size& s, DType dtype) {
  return transpose(randn({s.batch(), s.T, s.heads(), s.D}, dtype, Device::cuda), 1, 2);
}

Times ours(const Size& s, AttentionRead read, int repeats) {
  const auto draw_one = [&] { return draw(s, DType::bfloat16); };
  const Tensor q = draw_one(), k = draw_one(), v = draw_one(), dy = draw_one();
  AttentionOptions options;
  options.causal = true;
  options.read = read;
  check_last_rows({q, k, v}, dy, options);
  Times times;
  times.forward = bench::gpu_seconds([&] { attention(q, k, v, options); }, 3, repeats);
  Tape tape;
  for (const Tensor& x : {q, k, v}) tape.watch(x);
  const Tensor y = attention(q, k, v, options);
  times.backward = bench::gpu_seconds([&] { tape.gradient({y}, {q, k, v}, {dy}, Keep::yes); }, 3, repeats);
  return times;
}

/// All 0 where torch has no GPU.
Times theirs(const Size& s, int repeats) {
  const std::string script = bench::pytorch("cuda_attention.py");
  if (script.empty()) return {};
  const auto result =
      bench::run_or_tell(fmt::format("PyTorch, D {} T {}", s.D, s.T),
                         fmt::format("{} --batch {} --heads {} --time {} --size {} --repeats {}", script,
                                     s.batch(), s.heads(), s.T, s.D, repeats));
  if (result.is_null()) return {};
  return {result["forward"], result["backward"]};
}

std::string rate(double operations, double seconds) {
  return seconds == 0 ? "-" : fmt::format("{:.2f}", operations / seconds * 1e-12);
}

void measure(const Size& s, int repeats, const bench::MarkdownTable& table) {
  const Times mean = ours(s, AttentionRead::mean, repeats), laser = ours(s, AttentionRead::laser, repeats),
              torch = theirs(s, repeats);
  const auto row = [&](const char* pass, double operations, double Times::*time) {
    const double t = mean.*time;
    table.row({fmt::format("{}", s.D), fmt::format("{}", s.T), pass, rate(operations, t),
               rate(operations, laser.*time), fmt::format("{:.2f}x", laser.*time / t),
               rate(operations, torch.*time),
               torch.*time == 0 ? "-" : fmt::format("{:.2f}x", torch.*time / t)});
  };
  row("forward", s.operations(), &Times::forward);
  row("backward", 2.5 * s.operations(), &Times::backward);
}

#if VITRINE_CUDA_KERNELS
/// Operands of causal attention, and memory for its results.
cuda::AttentionBackward arguments(const Size& s, DType dtype) {
  const auto like = [&] {
    return transpose(empty({s.batch(), s.T, s.heads(), s.D}, dtype, Device::cuda), 1, 2);
  };
  cuda::AttentionBackward p;
  p.q = draw(s, dtype), p.k = draw(s, dtype), p.v = draw(s, dtype), p.dy = draw(s, dtype);
  p.form.causal = true, p.form.scale = 1 / std::sqrt(static_cast<double>(s.D));
  p.y = like(), p.dq = like(), p.dk = like(), p.dv = like();
  p.lse = empty({s.batch(), s.heads(), s.T}, DType::float32, Device::cuda);
  if (is_low_precision(dtype)) p.kept = like();
  return p;
}

/// Times of each step in the order of the ladder, 0 where it does not do this. Fails where one is
/// far from the one below it.
std::vector<Times> times_of_steps(const Size& s, DType dtype, int repeats) {
  const cuda::AttentionBackward p = arguments(s, dtype);
  std::vector<Times> all;
  std::vector<double> below[4];
  const auto compare = [&](std::string_view step, size_t i, const Tensor& t) {
    const std::vector<double> got = slice(t, 0, 0, 1).values();
    const double off = below[i].empty() ? 0 : distance(got, below[i], 1e-3);
    // Sums over queries or keys are rounded in another order.
    const double allowed = (8 + std::sqrt(static_cast<double>(s.T))) * epsilon(dtype);
    check(off <= allowed, "{} in {}: result {} is off by {:.2g}", step, name(dtype), i, off);
    below[i] = got;
  };
  for (const cuda::AttentionStep& step : cuda::attention_steps()) {
    Times& times = all.emplace_back();
    if (!step.supports(p)) continue;
    times.forward = bench::gpu_seconds([&] { step.run(p); }, 1, repeats);
    compare(step.name, 0, p.y);
    if (!step.supports_backward(p)) continue;
    times.backward = bench::gpu_seconds([&] { step.run_backward(p); }, 1, repeats);
    compare(step.name, 1, p.dq), compare(step.name, 2, p.dk), compare(step.name, 3, p.dv);
  }
  return all;
}

void measure_steps(Size s, int64_t T, int64_t D, int repeats) {
  s.T = T, s.D = D;
  fmt::print("\nTFLOP/s of each step, heads of {} channels, {} tokens a sequence\n\n", D, T);
  std::vector<bench::MarkdownTable::Column> columns = {{"dtype", true, 8}, {"pass", true, 8}};
  for (const cuda::AttentionStep& step : cuda::attention_steps())
    columns.push_back({std::string(step.name), false, 11});
  const bench::MarkdownTable table(columns);
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    const std::vector<Times> all = times_of_steps(s, dtype, repeats);
    const auto row = [&](const char* pass, double operations, double Times::*time) {
      std::vector<std::string> cells = {std::string(name(dtype)), pass};
      for (const Times& times : all) cells.push_back(rate(operations, times.*time));
      table.row(cells);
    };
    row("forward", s.operations(), &Times::forward);
    row("backward", 2.5 * s.operations(), &Times::backward);
  }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Attention on a GPU: TFLOP/s, forward and backward, standard, LASER and PyTorch's");
  Size size;
  std::vector<int64_t> head_sizes = {64, 128}, times = {1024, 2048, 4096, 8192};
  int64_t steps_time = 1024;
  int repeats = 9;
  app.add_option("--channels", size.channels, "of all heads together")->capture_default_str();
  app.add_option("--tokens", size.tokens, "of all sequences together")->capture_default_str();
  app.add_option("--head-sizes", head_sizes)->capture_default_str();
  app.add_option("--times", times, "lengths of a sequence")->capture_default_str();
  app.add_option("--steps-time", steps_time, "length of a sequence in the table of steps")
      ->capture_default_str();
  app.add_option("--repeats", repeats, "measurements, of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!bench::has_gpu()) return 0;
  fmt::print("TFLOP/s; ratios are of times to that of our standard attention\n\n");
  const bench::MarkdownTable table({{"D"},
                                    {"T", false, 5},
                                    {"pass", true, 8},
                                    {"standard"},
                                    {"LASER"},
                                    {"LASER to standard"},
                                    {"PyTorch"},
                                    {"PyTorch to standard"}});
  for (const int64_t D : head_sizes)
    for (const int64_t T : times) {
      size.D = D;
      size.T = T;
      measure(size, repeats, table);
    }
#if VITRINE_CUDA_KERNELS
  measure_steps(size, steps_time, head_sizes.front(), repeats);
#endif
}
