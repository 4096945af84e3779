// Trains an encoder to reverse sequences: 3 1 4 1 5 → 5 1 4 1 3.
//
//   reverse_sequences [--mixer laser]
//
// Each position has to find the position that mirrors it, so the attention learns to look there:
// the report shows where. No sequence of the test is in the training data.
#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/synthetic/sequences.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/stack_settings.h"
#include "nn/models/text_encoder.h"
#include "ops/loss.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part, synthetic::reversals, synthetic::Sequences;

namespace {

constexpr int64_t kSymbols = 10, kLength = 16;

struct Settings {
  StackOptions model = {.block = {.mixer = {.width = 32, .heads = 1, .context = kLength}}, .layers = 2};
  examples::RunSettings run = {.training = {.steps = 1200}, .schedule = {.lr = 5e-3}, .batch = 128};

  void list(OptionList& o) {
    list_stack(model, o);
    run.list(o);
  }
};

void run(const Settings& s, const std::string& title) {
  const Split<Sequences> data = {reversals(Part::training, 50000), reversals(Part::held_out, 1000)};
  manual_seed(s.run.seed);
  TextEncoder model({.vocabulary = kSymbols, .stack = s.model});
  const auto logits = [&](const Tensor& ids) { return model.logits(model.features(ids)); };
  training::Task task = examples::make_task<Sequences>(model, data, synthetic::batch_of, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(logits(x[0]), x[1]); };
  task.metrics = {accuracy_metric(logits),
                  {.name = "sequences without a mistake",
                   .of_batch = [&](const auto& x) { return sequence_accuracy(logits(x[0]), x[1]); }}};
  task.words = {.item = "symbol", .loss_unit = "nats per symbol", .classes = kSymbols};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.block.mixer.name);
  const ModeScope evaluation(model, false);
  const Sequences first = data.held_out[0];
  const Batch one = synthetic::batch_of({&first, 1});
  std::vector<MixerTrace> traces;
  Tape tape;
  const Tensor found = model.logits(model.features(one.tensors[0], {.traces = &traces}));
  std::vector<std::string> symbols, reversed;
  for (const int64_t symbol : first.input) symbols.push_back(std::to_string(symbol));
  for (const int64_t symbol : first.target) reversed.push_back(std::to_string(symbol));
  training::inspect_attention(tape, cross_entropy(found, one.tensors[1]), traces, reversed, symbols, record);
  examples::say(stdout, "{} parameters; {:.0f} of {} held-out sequences are reversed without a mistake\n",
                model.parameter_count(), record.metrics[1].last() * static_cast<double>(data.held_out.size()),
                data.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("reverse_sequences", "Trains an encoder to reverse sequences.",
                                     "  reverse_sequences\n  reverse_sequences --mixer rotary --heads 4",
                                     Settings(), argc, argv, run);
}
