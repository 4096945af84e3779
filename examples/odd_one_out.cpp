// Trains a Transformer of sets to find the item that does not belong to the others.
//
//   odd_one_out [STEPS]
//
// All items of a set come from one class, but for one. Only the other items show which one it is,
// and their order says nothing. The classes are the same for every set, and no set of the test is
// in the training data.
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "nn/data/loader.h"
#include "nn/data/synthetic/odd_one_out.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/set_encoder.h"
#include "nn/training/trainer.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::OddOneOut, synthetic::odd_one_out, synthetic::Part;

namespace {

constexpr int64_t kFeatures = 16, kBatch = 64;

/// Sets [B, N, features], and the places of their odd items.
Batch batch_of(std::span<const OddOneOut> all) {
  std::vector<Tensor> sets;
  std::vector<int64_t> odd;
  for (const OddOneOut& set : all) sets.push_back(set.items), odd.push_back(set.odd);
  const int64_t count = std::ssize(all);
  return {{stack(sets, 0), index_tensor(odd, {count})}, count};
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 2, "usage: odd_one_out [STEPS]");
  const int64_t steps = argc == 2 ? std::stoll(argv[1]) : 2500;
  SetEncoder model(kFeatures, {.block = {.mixer = {.width = 64}}, .layers = 2});
  const auto scores = [&](const Tensor& sets) { return model.scores(model.features(sets)); };
  Loader loader(odd_one_out(Part::training, 200000), shuffled_batches(200000, kBatch, /*seed=*/0), batch_of);
  const std::vector<Batch> held_out =
      Loader(odd_one_out(Part::held_out, 1000, {}, /*seed=*/1), ordered_batches(1000, 1000), batch_of)
          .whole();
  const training::Task task{.model = model,
                            .batch = [&](int64_t index) { return loader.batch(index); },
                            .validation = [&] { return held_out; },
                            .loss = [&](const auto& x) { return cross_entropy(scores(x[0]), x[1]); },
                            .metrics = {accuracy_metric(scores)}};
  training::Trainer trainer(task, optim::warmup_cosine(2e-3, steps / 10, steps), {.steps = steps});
  trainer.run();
  fmt::print("{} parameters; the odd item of {:.1f} % of 1000 held-out sets is found\n",
             model.parameter_count(), 100 * trainer.record().metrics[0].last());
  check(std::fflush(stdout) == 0, "odd_one_out: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
