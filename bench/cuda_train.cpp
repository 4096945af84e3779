// Training GPT-2 124M on a GPU, bfloat16 with float32 masters, 1024 tokens a sequence, beside the same model in PyTorch (compiled,
// flash attention) where torch with CUDA is installed: tokens/s, peak memory, and the share of what the matrix product alone reaches.
// Each contender runs in processes of its own, in turn, so that a disturbance meets both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/contest.h"
#include "bench/measure/gpu.h"
#include "bench/measure/process.h"
#include "core/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "optim/optimizers.h"

using namespace vitrine;
using bench::Size;
using nlohmann::json;

namespace {

/// One contender's process: trains, and prints what PyTorch's twin prints.
void train(const Size& s) {
  nn::Gpt model(s.model);
  model.to(DType::bfloat16);
  model.to(Device::cuda);
  optim::Adam optimizer(model.parameters(),
                        {.lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1, .decay = optim::Decay::decoupled});
  json result;
  for (int step = -2; step < s.steps; ++step) {
    const double start = bench::seconds();
    const Tensor x = bench::random_tokens(s, Device::cuda), y = bench::random_tokens(s, Device::cuda);
    optimizer.zero_grad();
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(x), y);
    tape.backward(loss);
    optimizer.step();
    result["loss"] = loss.item();  // waits for all of the step
    if (step >= 0) result["seconds"].push_back(bench::seconds() - start);
  }
  result["peak_mib"] = static_cast<double>(memory::statistics(Device::cuda).peak) / (1 << 20);
  fmt::print("{}\n", result.dump());
}

/// Operations per second of a large product in bfloat16.
double product_peak(int64_t n) {
  const Tensor x = randn({n, n}, DType::bfloat16, Device::cuda),
               y = randn({n, n}, DType::bfloat16, Device::cuda);
  const double size = static_cast<double>(n);
  return 2 * size * size * size / bench::gpu_seconds([&] { matmul(x, y); }, 3, 9);
}

void print(const Size& s, const char* name, const std::vector<json>& runs, double peak) {
  const double t = bench::median(bench::seconds_of(runs));
  fmt::print("{:>5}  {:<9}{:>10.1f}{:>12.0f}{:>10.0f}{:>10.0f}%\n", s.batch, name, 1e3 * t,
             static_cast<double>(s.batch * s.time) / t, bench::largest(runs, "peak_mib"),
             100 * bench::product_operations(s) / t / peak);
  std::fflush(stdout);
}

void compare(const Size& s, int rounds, double peak) {
  bench::Runs runs;
  const std::string script = bench::pytorch("gpt.py");
  const std::string sizes = bench::arguments(s);
  for (int round = 0; round < rounds; ++round) {
    runs.ours.push_back(bench::run_for_json(fmt::format("{} --process {}", bench::this_program(), sizes)));
    if (script.empty()) continue;
    const json run = bench::run_for_json(fmt::format("{} train --device cuda {}", script, sizes));
    if (!run.is_null()) runs.theirs.push_back(run);
  }
  print(s, "Vitrine", runs.ours, peak);
  if (runs.theirs.empty()) return;
  print(s, "PyTorch", runs.theirs, peak);
  fmt::print("{:>5}  {:<9}{:>9.2f}x{:>12}{:>9.2f}x\n\n", s.batch, "ratio",
             bench::median(bench::seconds_of(runs.theirs)) / bench::median(bench::seconds_of(runs.ours)), "",
             bench::largest(runs.ours, "peak_mib") / bench::largest(runs.theirs, "peak_mib"));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Training GPT-2 124M on a GPU, against PyTorch");
  Size s = bench::size("c");
  s.time = s.model.context = 1024;
  s.steps = 20;
  std::vector<int64_t> batches = {8, 16, 32, 64};
  int rounds = 3, threads = 0;
  int64_t product = 8192;
  bool process = false;
  app.add_option("--batch", batches, "sequences in a step")->capture_default_str();
  app.add_option("--layers", s.model.layers)->capture_default_str();
  app.add_option("--heads", s.model.heads)->capture_default_str();
  app.add_option("--width", s.model.width)->capture_default_str();
  app.add_option("--context", s.model.context)->capture_default_str();
  app.add_option("--vocabulary", s.model.vocabulary)->capture_default_str();
  app.add_option("--time", s.time, "tokens of a sequence")->capture_default_str();
  app.add_option("--steps", s.steps, "in a process, after two that do not count")->capture_default_str();
  app.add_option("--rounds", rounds, "processes of each contender, in turn")->capture_default_str();
  app.add_option("--product", product, "size of the matrices that measure the peak")->capture_default_str();
  app.add_option("--threads", threads, "means nothing here")->group("");
  app.add_flag("--process", process, "train here and print the figures as JSON: what the rounds start");
  CLI11_PARSE(app, argc, argv);
  s.batch = batches.front();
  if (process) return train(s), 0;
  if (!bench::has_gpu()) return 0;

  const double peak = product_peak(product);
  fmt::print("the matrix product reaches {:.1f} TFLOP/s in bfloat16\n\n", 1e-12 * peak);
  fmt::print("{:>5}  {:<9}{:>10}{:>12}{:>10}{:>11}\n", "batch", "", "median ms", "tokens/s", "peak MiB",
             "of product");
  for (const int64_t batch : batches) {
    s.batch = batch;
    compare(s, rounds, peak);
  }
}
