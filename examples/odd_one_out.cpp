// Trains a Transformer of sets to find the item that does not belong to the others.
//
//   odd_one_out [--layers 1]
//
// All items of a set come from one class, but for one. Only the other items show which one it is,
// and their order says nothing. The classes are the same for every set, and no set of the test is
// in the training data. The report shows how the items attend to each other.
#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/synthetic/odd_one_out.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/set_encoder.h"
#include "nn/models/stack_settings.h"
#include "ops/join.h"
#include "ops/loss.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::OddOneOut, synthetic::odd_one_out, synthetic::Part;

namespace {

struct Settings {
  StackOptions model = {.block = {.mixer = {.width = 64}}, .layers = 2};
  examples::RunSettings run = {.training = {.steps = 2500}, .schedule = {.lr = 2e-3}, .batch = 64};

  void list(OptionList& o) {
    list_stack(model, o);
    run.list(o);
  }
};

/// Sets [B, N, features], and the places of their odd items [B].
Batch batch_of(std::span<const OddOneOut> all) {
  std::vector<Tensor> sets;
  std::vector<int64_t> odd;
  for (const OddOneOut& set : all) sets.push_back(set.items), odd.push_back(set.odd);
  const int64_t count = std::ssize(all);
  return {{stack(sets, 0), index_tensor(odd, {count})}, count};
}

void run(const Settings& s, const std::string& title) {
  const Split<OddOneOut> sets = {odd_one_out(Part::training, 200000),
                                 odd_one_out(Part::held_out, 1000, {}, /*seed=*/1)};
  const OddOneOut first = sets.held_out[0];
  manual_seed(s.run.seed);
  SetEncoder model(first.items.size(1), s.model);
  const auto scores = [&](const Tensor& x) { return model.scores(model.features(x)); };
  training::Task task = examples::make_task<OddOneOut>(model, sets, batch_of, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(scores(x[0]), x[1]); };
  task.metrics = {accuracy_metric(scores)};
  task.words = {.item = "set", .loss_unit = "nats per set", .classes = first.items.size(0)};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.block.mixer.name);
  const ModeScope evaluation(model, false);
  const Batch one = batch_of({&first, 1});
  std::vector<MixerTrace> traces;
  Tape tape;
  const Tensor found = model.scores(model.features(one.tensors[0], {.traces = &traces}));
  std::vector<std::string> items;
  for (int64_t i = 0; i < found.size(1); ++i)
    items.push_back(fmt::format("{}{}", i + 1, i == first.odd ? " (odd)" : ""));
  training::inspect_attention(tape, cross_entropy(found, one.tensors[1]), traces, items, items, record);
  examples::say(stdout, "{} parameters; the odd item of {:.1f} % of {} held-out sets is found\n",
                model.parameter_count(), 100 * record.metrics[0].last(), sets.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("odd_one_out", "Trains an encoder of sets to find the odd item.",
                                     "  odd_one_out\n  odd_one_out --mixer laser --layers 1", Settings(),
                                     argc, argv, run);
}
