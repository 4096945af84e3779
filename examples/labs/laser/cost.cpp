// What exponentials and logarithms cost in whole training steps.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "examples/labs/laser/sections.h"
#include "nn/models/gpt.h"
#include "ops/loss.h"
#include "optim/adam.h"

namespace vitrine::labs {
namespace {

using namespace nn::report;

/// A small GPT in training.
class Training {
 public:
  Training(const std::string& mixer, int64_t context) {
    manual_seed(1);
    model_ = std::make_unique<nn::Gpt>(nn::GptOptions{
        .vocabulary = 256, .context = context, .width = 128, .layers = 2, .heads = 4, .mixer = mixer});
    adam_ = std::make_unique<optim::Adam>(model_->parameters(), optim::AdamOptions{.lr = 1e-3});
    x_ = randint(0, 256, {kTokens / context, context});
    y_ = randint(0, 256, {kTokens / context, context});
  }
  /// Milliseconds of one step.
  double step() {
    const auto start = std::chrono::steady_clock::now();
    adam_->zero_grad();
    Tape tape;
    tape.backward(cross_entropy(model_->logits(model_->features(x_)), y_));
    adam_->step();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  static constexpr int64_t kTokens = 1024;
  std::unique_ptr<nn::Gpt> model_;
  std::unique_ptr<optim::Adam> adam_;
  Tensor x_, y_;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

/// The bytes that a step needs above what the model and the optimizer keep.
double step_memory(Training& training) {
  const size_t before = memory::statistics().now;
  memory::reset_peak();
  training.step();
  return static_cast<double>(memory::statistics().peak - before) / (1 << 20);
}

struct Cost {
  double standard, laser, memory_standard, memory_laser;
};

/// The two models take steps in turn, so that other work on the machine meets both.
Cost measure(int64_t context) {
  constexpr int kSteps = 9;
  Training standard("standard", context), laser("laser", context);
  standard.step(), laser.step();  // allocates
  const double memory_standard = step_memory(standard), memory_laser = step_memory(laser);
  std::vector<double> times[2];
  for (int i = 0; i < kSteps; ++i) times[0].push_back(standard.step()), times[1].push_back(laser.step());
  return {median(times[0]), median(times[1]), memory_standard, memory_laser};
}

}  // namespace

Section cost_section() {
  TextTable table{.title = "Training steps of a GPT: 2 layers, width 128, 4 heads, 1024 tokens, float32",
                  .columns = {"context", "standard, ms", "LASER, ms", "time, ratio", "standard, MiB",
                              "LASER, MiB", "memory, ratio"}};
  double slowest = 0, largest = 0;
  for (int64_t context : {64, 256, 1024}) {
    const Cost c = measure(context);
    const double time = c.laser / c.standard, bytes = c.memory_laser / c.memory_standard;
    slowest = std::max(slowest, time), largest = std::max(largest, bytes);
    table.rows.push_back({fmt::format("{}", context), fmt::format("{:.1f}", c.standard),
                          fmt::format("{:.1f}", c.laser), fmt::format("{:.2f}", time),
                          fmt::format("{:.1f}", c.memory_standard), fmt::format("{:.1f}", c.memory_laser),
                          fmt::format("{:.2f}", bytes)});
  }
  return {
      .title = "The cost of exp and log",
      .paragraphs =
          {{"Claim",
            "The cost of the exponentials and logarithms is not thoroughly quantified in the paper."},
           {"Seen",
            fmt::format(
                "A whole training step with LASER takes {:.2f} times the time of standard attention at most, and {:.2f} "
                "times the memory.",
                slowest, largest)},
           {"Verdict",
            "The cost is one exponential for each value that a tile of queries reads, and sums in float32 that are kept "
            "for the backward pass. Times vary with the machine and its other work."}},
      .figures = {
          {table, "Medians of 9 steps that the two models take in turn; memory above that of the model."}}};
}

}  // namespace vitrine::labs
