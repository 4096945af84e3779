// Trains an encoder to reverse sequences: 3 1 4 1 5 → 5 1 4 1 3.
//
//   reverse_sequences [MIXER] [STEPS]
//
// Each position has to find the position that mirrors it, so the attention learns to look there. No
// sequence of the test is in the training data. MIXER is a name such as laser or rotary.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "nn/data/loader.h"
#include "nn/data/synthetic/sequences.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/text_encoder.h"
#include "nn/training/trainer.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part, synthetic::reversals;

namespace {

constexpr int64_t kSymbols = 10, kLength = 16, kWidth = 32, kBatch = 128;

/// The number of sequences of which every symbol is right.
int64_t count_right(TextEncoder& model, const Batch& batch) {
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  const Tensor chosen = argmax(model.logits(model.features(batch.tensors[0])), -1);
  return static_cast<int64_t>(sum(cast(all(equal(chosen, batch.tensors[1]), {1}), DType::int64)).item());
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 3, "usage: reverse_sequences [MIXER] [STEPS]");
  const int64_t steps = argc == 3 ? std::stoll(argv[2]) : 1200;
  TextEncoder model({.vocabulary = kSymbols,
                     .stack = {.block = {.mixer = {.width = kWidth,
                                                   .heads = 1,
                                                   .context = kLength,
                                                   .name = argc > 1 ? argv[1] : "standard"}},
                               .layers = 2}});
  const auto logits = [&](const Tensor& ids) { return model.logits(model.features(ids)); };
  const auto part = [](Part which, int64_t count, BatchPlan plan) {
    return Loader(reversals(which, count), std::move(plan), synthetic::batch_of);
  };
  Loader loader = part(Part::training, 50000, shuffled_batches(50000, kBatch, /*seed=*/0));
  const std::vector<Batch> held_out = part(Part::held_out, 1000, ordered_batches(1000, 1000)).whole();
  const training::Task task{.model = model,
                            .batch = [&](int64_t index) { return loader.batch(index); },
                            .validation = [&] { return held_out; },
                            .loss = [&](const auto& x) { return cross_entropy(logits(x[0]), x[1]); },
                            .metrics = {accuracy_metric(logits)}};
  training::Trainer trainer(task, optim::warmup_cosine(5e-3, steps / 10, steps), {.steps = steps});
  trainer.run();
  fmt::print("{} parameters; {} of 1000 held-out sequences are reversed without a mistake\n",
             model.parameter_count(), count_right(model, held_out[0]));
  check(std::fflush(stdout) == 0, "reverse_sequences: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
