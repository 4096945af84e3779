// Training GPT-2 124M on a GPU, bfloat16 with float32 masters, 1024 tokens per sequence, next to
// the same model in PyTorch (compiled, flash attention) if torch with CUDA is installed: tokens/s,
// memory, and the share of the speed of the matrix product alone. With --graph also with steps that
// are captured once and replayed. Each contender runs in its own processes, in turn, so that a
// disturbance affects all.
//
// Memory is measured in the same way for all: the peak memory of tensors from the second step on,
// including workspaces of cuBLASLt, and the GPU memory that the caching allocator holds at the end.
// Neither number includes the memory of CUDA itself and of the libraries' code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/contest.h"
#include "bench/measure/gpu.h"
#include "bench/measure/markdown.h"
#include "bench/measure/process.h"
#include "core/creation.h"
#include "core/gpu/step_graph.h"
#include "core/gpu/stream.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "cuda/matmul/steps.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "optim/optimizers.h"

using namespace vitrine;
using bench::Size;
using nlohmann::json;

namespace {

constexpr double kMiB = 1 << 20;

/// One contender's process: trains, and prints what PyTorch's twin prints.
void train(const Size& s, bool in_graph) {
  nn::Gpt model(s.model);
  model.to(DType::bfloat16);
  model.to(Device::cuda);
  optim::Adam optimizer(model.parameters(),
                        {.lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1, .decay = optim::Decay::decoupled});
  Tensor x = empty({s.batch, s.time}, DType::int64, Device::cuda), y = empty_like(x), loss;
  const auto step = [&] {
    optimizer.zero_grad();
    Tape tape;
    loss = cross_entropy(model.forward(x), y);
    tape.backward(loss);
    optimizer.step();
  };
  std::optional<StepGraph> graph;
  json result;
  for (int i = -2; i < s.steps; ++i) {
    const double start = bench::seconds();
    for (Tensor* tokens : {&x, &y}) copy_async(*tokens, copy_pinned(bench::random_tokens(s)));
    if (in_graph && i > -2) {
      if (!graph) graph.emplace(Device::cuda, step);
      graph->replay();
    } else {
      step();
    }
    result["loss"] = loss.item();  // waits for all of the step
    if (i >= 0) result["seconds"].push_back(bench::seconds() - start);
    if (i == -2) {  // what made the model is not training
      memory::release_cached(Device::cuda);
      memory::reset_peak(Device::cuda);
    }
  }
  const auto memory = memory::statistics(Device::cuda);
  result["peak_mib"] = static_cast<double>(memory.peak) / kMiB;
  result["reserved_mib"] = static_cast<double>(memory.reserved) / kMiB;
  fmt::print("{}\n", result.dump());
}

/// Operations per second of a large product in bfloat16.
double product_peak(int64_t n) {
  const Tensor x = randn({n, n}, DType::bfloat16, Device::cuda),
               y = randn({n, n}, DType::bfloat16, Device::cuda);
  const double size = static_cast<double>(n);
  return 2 * size * size * size / bench::gpu_seconds([&] { matmul(x, y); }, 3, 9);
}

struct Contender {
  const char* name;
  std::string command;
  std::vector<json> runs = {};
};

void print(const bench::MarkdownTable& table, const Size& s, const Contender& c, double peak) {
  const double t = bench::median(bench::seconds_of(c.runs));
  const auto whole = [](double x) { return fmt::format("{:.0f}", x); };
  table.row({fmt::format("{}", s.batch), c.name, fmt::format("{:.1f}", 1e3 * t),
             whole(static_cast<double>(s.batch * s.time) / t), whole(bench::largest(c.runs, "peak_mib")),
             whole(bench::largest(c.runs, "reserved_mib")),
             whole(100 * bench::product_operations(s) / t / peak) + "%",
             fmt::format("{:.3f}", c.runs.back()["loss"].get<double>())});
}

/// How much faster the first one is, and its share of the other's memory.
void print_ratio(const bench::MarkdownTable& table, const Size& s, const Contender& ours,
                 const Contender& theirs) {
  const auto ratio = [](double x, double y) { return fmt::format("{:.2f}x", x / y); };
  const auto share = [&](const char* figure) {
    return ratio(bench::largest(ours.runs, figure), bench::largest(theirs.runs, figure));
  };
  table.row(
      {fmt::format("{}", s.batch), fmt::format("{} to {}", ours.name, theirs.name),
       ratio(bench::median(bench::seconds_of(theirs.runs)), bench::median(bench::seconds_of(ours.runs))), "",
       share("peak_mib"), share("reserved_mib"), "", ""});
}

void compare(const bench::MarkdownTable& table, const Size& s, int rounds, bool with_graph, double peak) {
  const std::string sizes = bench::arguments(s);
  const std::string own = fmt::format("{} --process {}", bench::this_program(), sizes);
  std::vector<Contender> contenders = {{"Vitrine", own}};
  if (with_graph) contenders.push_back({"graph", own + " --graph"});
  if (const std::string script = bench::pytorch("gpt.py"); !script.empty())
    contenders.push_back(
        {"PyTorch", fmt::format("{} train --device cuda --dtype bfloat16 --compiled {}", script, sizes)});
  for (int round = 0; round < rounds; ++round)
    for (Contender& c : contenders) {
      const bool is_ours = c.name != std::string("PyTorch");
      const json run = is_ours ? bench::run_for_json(c.command)
                               : bench::run_or_tell(fmt::format("PyTorch with batch {}", s.batch), c.command);
      if (!run.is_null()) c.runs.push_back(run);
    }
  std::erase_if(contenders, [](const Contender& c) { return c.runs.empty(); });
  for (const Contender& c : contenders) print(table, s, c, peak);
  if (!contenders.empty() && contenders.back().name == std::string("PyTorch"))
    for (size_t i = 0; i + 1 < contenders.size(); ++i)
      print_ratio(table, s, contenders[i], contenders.back());
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
  bool process = false, graph = false;
  app.add_option("--batch", batches, "sequences in a step")->capture_default_str();
  app.add_option("--layers", s.model.layers)->capture_default_str();
  app.add_option("--heads", s.model.heads)->capture_default_str();
  app.add_option("--width", s.model.width)->capture_default_str();
  app.add_option("--context", s.model.context)->capture_default_str();
  app.add_option("--vocabulary", s.model.vocabulary)->capture_default_str();
  app.add_option("--time", s.time, "tokens of a sequence")->capture_default_str();
  app.add_option("--steps", s.steps, "in a process, after two that do not count")->capture_default_str();
  app.add_option("--rounds", rounds, "processes of each contender, in turn")->capture_default_str();
  app.add_flag("--graph", graph, "also with the steps captured once and replayed");
  app.add_option("--product", product, "size of the matrices that measure the peak")->capture_default_str();
  app.add_option("--threads", threads, "means nothing here")->group("");
  app.add_flag("--process", process, "train here and print the figures as JSON: what the rounds start");
  CLI11_PARSE(app, argc, argv);
  s.batch = batches.front();
  if (process) return train(s, graph), 0;
  if (!bench::has_gpu()) return 0;

  const double peak = product_peak(product);
  fmt::print(
      "the matrix product reaches {:.1f} TFLOP/s in bfloat16, by {}\n\n", 1e-12 * peak,
      cuda::cublas_absence().empty() ? cuda::cublas_origin() : "our own steps: " + cuda::cublas_absence());
  const bench::MarkdownTable table({{"batch"},
                                    {"trained by", true, 18},
                                    {"median ms"},
                                    {"tokens/s"},
                                    {"peak MiB"},
                                    {"reserved MiB"},
                                    {"of product"},
                                    {"last loss"}});
  for (const int64_t batch : batches) {
    s.batch = batch;
    compare(table, s, rounds, graph, peak);
  }
}
