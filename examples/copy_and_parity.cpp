// Compares mechanisms on three tasks of memory: a string is copied, symbols are remembered over
// 4096 positions, and the ones of a string are counted modulo 2.
//
//   copy_and_parity [--tasks copy,long_copy,parity] [--mechanisms standard,rwkv7]
//
// By default it copies; --help shows the other tasks.
// Models predict the next token. Training begins with short sequences, whose length doubles until
// it is the full one. The report has accuracy next to steps, time, memory and operations.
#include <algorithm>
#include <string>
#include <vector>

#include "examples/copy_and_parity_page.h"
#include "nn/metrics/accuracy.h"
#include "nn/training/checkpoint.h"
#include "nn/training/inspect_parts.h"
#include "nn/training/tasks/language_modeling.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using synthetic::Part;

namespace {

/// The logits of a sequence that is read in so many segments.
Tensor logits_of(const Gpt& model, const Tensor& ids, int64_t segments) {
  const int64_t time = ids.size(1);
  if (segments == 1) return model.forward(ids);
  const auto state = model.make_state(ids.size(0));
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < segments; ++i)
    parts.push_back(
        model.forward(slice(ids, 1, i * time / segments, (i + 1) * time / segments), {.state = state.get()}));
  return concat(parts, 1);
}

report::RunRecord train(const MemorySettings& s, const Problem& p, const Mechanism& mechanism) {
  GptOptions options = s.model;
  options.context = positions_of(p.longer ? *p.longer : p.items(Part::held_out, p.length));
  options.vocabulary = p.vocabulary, options.mixer = mechanism.mixer;
  mechanism.change(options);
  if (options.reversible) options.recompute_blocks = false;  // which it is by itself
  manual_seed(s.run.seed);
  Gpt model(options);
  const auto accuracy_of = [&](const std::vector<Tensor>& x) {
    return accuracy(logits_of(model, x[0], mechanism.segments), x[1]);
  };
  const std::vector<Batch> held_out = held_out_batches(p.items(Part::held_out, p.length), s);
  training::Task task{
      .model = model,
      .batch = [&](int64_t index) { return training_batch(p, s, index); },
      .validation = [&] { return held_out; },
      .loss =
          [&](const std::vector<Tensor>& x) {
            return mechanism.segments == 1 ? training::next_token_loss(model, x)
                                           : cross_entropy(logits_of(model, x[0], mechanism.segments), x[1]);
          },
      .metrics = {{.name = "accuracy", .of_batch = accuracy_of},
                  {.name = "sequences without a mistake",
                   .of_batch =
                       [&](const std::vector<Tensor>& x) {
                         return sequence_accuracy(logits_of(model, x[0], mechanism.segments), x[1]);
                       }}},
      .words = {.item = "answer",
                .loss_unit = "nats per answer",
                .loss_meaning = "The cross-entropy of the symbols that count.",
                .classes = p.vocabulary},
      .setting = {{"seed", std::to_string(s.run.seed)}, {"tokens", std::to_string(s.tokens)}}};
  const std::vector<Batch> longer = p.longer ? held_out_batches(*p.longer, s) : std::vector<Batch>();
  if (p.longer)
    task.metrics.push_back({.name = "accuracy, twice as long", .of_split = [&](double) {
                              WeightedSum whole;
                              for (const Batch& batch : longer) {
                                const WeightedSum one = accuracy_of(batch.tensors);
                                whole.sum += one.sum, whole.weight += one.weight;
                              }
                              return whole.sum / whole.weight;
                            }});
  training::keep_model(task, model);
  report::RunRecord record = examples::train(task, s, mechanism.name);
  for (const auto& setting : option_values(options, {Role::result}))
    if (!std::ranges::count(record.settings, setting.first, [](const auto& s) { return s.first; }))
      record.settings.push_back(setting);
  if (mechanism.segments == 1) training::inspect_parts(model, held_out[0].tensors[0], record);
  say(stdout, "{}, {}: {:.1f} % of the answers are right\n", p.name, mechanism.name,
      100 * record.metrics[0].last());
  return record;
}

void run(const MemorySettings& s, const std::string& title) {
  std::vector<Problem> problems;
  std::vector<Mechanism> mechanisms;
  for (const std::string& name : s.tasks) problems.push_back(problem_named(name, s));
  for (const std::string& name : s.mechanisms) mechanisms.push_back(mechanism_named(name));
  check(!problems.empty() && !mechanisms.empty(), "wanted a task and a mechanism");
  report::Page page{.title = title};
  for (const Problem& problem : problems) {
    MemorySettings own = s;
    own.run.out += "/" + problem.name;
    if (!own.run.training.tensorboard.empty()) own.run.training.tensorboard += "/" + problem.name;
    std::vector<report::RunRecord> records;
    for (const Mechanism& mechanism : mechanisms)
      if (records.empty() || !training::interrupted()) records.push_back(train(own, problem, mechanism));
    write_comparison(own.run, title + " Task: " + problem.name, records);
    page.sections.push_back(section_of(problem, records));
    if (training::interrupted()) break;
  }
  write_page(s.run.out + "/report.html", page);
}

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("copy_and_parity", "Compares mechanisms on copying, remembering and counting.",
                           "  copy_and_parity --tasks copy,long_copy,parity --steps 1000 --tokens 4096\n"
                           "  copy_and_parity --tasks parity --mechanisms rwkv7,lstm,rotary --bits 32",
                           MemorySettings(), argc, argv, run);
}
