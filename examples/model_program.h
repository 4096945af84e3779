// Programs that train one model for one task: their options, and what is around the training.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "examples/vitrine/command.h"
#include "nn/data/loader.h"
#include "nn/report/report.h"
#include "nn/text/tokenizer.h"
#include "nn/training/checkpoint.h"
#include "nn/training/inspect_attention.h"
#include "nn/training/interrupt.h"
#include "nn/training/schedule_options.h"
#include "nn/training/trainer.h"

namespace vitrine::examples {

/// The options of such a program: those of its model, of the trainer and of the schedule.
template <class ModelOptions>
struct ModelSettings {
  ModelOptions model;
  nn::training::TrainingOptions training;
  nn::training::ScheduleOptions schedule;
  int64_t batch = 32;
  uint64_t seed = 1;
  int threads = 0;
  std::string report, resume;

  void list(nn::OptionList& o) {
    model.list(o);
    for (const char* given_by_data : {"vocabulary", "classes"})
      if (o.find(given_by_data)) o.remove(given_by_data);
    training.list(o);
    o.remove("graph");
    o.find("checkpoint")->help = "path of the checkpoint; empty: none";
    schedule.list(o);
    o.group("Training");
    o("batch", batch, "items per step").at_least(1);
    o("seed", seed, "seed of all random numbers");
    o("threads", threads, "CPU threads; 0: all cores").decides(nn::Role::execution);
    o.group("Files and progress");
    o("report", report, "path of the report, an HTML page; empty: none").decides(nn::Role::files);
    o("resume", resume, "a checkpoint from which the run continues; empty: none").decides(nn::Role::files);
  }
};

/// A task without a loss, whose batches come from a data set. `batch_of` makes a batch of items.
template <class Item, class ModelOptions>
nn::training::Task make_task(nn::Module& model, const nn::Split<Item>& items,
                             const std::function<nn::Batch(std::span<const Item>)>& batch_of,
                             const ModelSettings<ModelOptions>& s) {
  const auto& [training, held_out] = items;
  const auto loader = std::make_shared<nn::Loader>(
      training, nn::shuffled_batches(training.size(), s.batch, s.seed), batch_of);
  const auto whole = nn::Loader(held_out, nn::ordered_batches(held_out.size(), 100), batch_of).whole();
  return {.model = model,
          .batch = [loader](int64_t index) { return loader->batch(index); },
          .validation = [whole] { return whole; },
          .loss = {},
          .setting = {{"seed", std::to_string(s.seed)}, {"batch", std::to_string(s.batch)}}};
}

/// Trains the model of the task, and writes the report. `show` adds to the record what the report
/// shows of single examples. Returns the last value of the first metric.
template <class ModelOptions>
double train_and_report(const ModelSettings<ModelOptions>& s, const std::string& title,
                        const nn::training::Task& task,
                        const std::function<void(nn::report::RunRecord&)>& show) {
  nn::training::Trainer trainer(task, s.schedule.schedule(s.training.steps), s.training);
  if (!s.resume.empty()) trainer.resume(s.resume);
  trainer.run(nn::training::interrupted);
  nn::report::RunRecord& record = trainer.record();
  record.name = title;
  record.settings = nn::option_values(s, {nn::Role::result, nn::Role::schedule, nn::Role::execution});
  const nn::ModeScope evaluation(task.model, false);
  show(record);
  if (!s.report.empty()) nn::report::write_report(s.report, title, {record});
  say(stdout, "{} parameters; ", task.model.parameter_count());
  return record.metrics.at(0).last();
}

/// Adds attention weights [1, queries, keys] to the record: the statistics of this head, and its
/// map.
inline void show_weights(const Tensor& weights, Tape& tape, const Tensor& loss,
                         const std::vector<std::string>& queries, const std::vector<std::string>& keys,
                         nn::report::RunRecord& record) {
  nn::MixerTrace trace;
  trace.weights = unsqueeze(weights, 1);
  nn::training::inspect_attention(tape, loss, {trace}, queries, keys, record);
}

/// The words of a row of ids [T].
inline std::vector<std::string> words_of(const Tensor& ids, const nn::Tokenizer& tokenizer) {
  std::vector<std::string> words;
  for (const double id : ids.values()) words.push_back(tokenizer.token(static_cast<int64_t>(id)));
  return words;
}

/// The main function of such a program, named `name`. `body` returns nothing.
template <class Settings>
int run_model_program(const std::string& name, const std::string& purpose, const std::string& examples,
                      int argc, char** argv, void (*body)(Settings&)) {
  static const auto start = body;
  const auto run = [](Settings& s, const Call& call) {
    call.options.check_given();
    nn::training::catch_signals();
    if (s.threads != 0) set_threads(s.threads);
    manual_seed(s.seed);
    start(s);
    return 0;
  };
  return make_command<Settings>(name, purpose, examples, {}, run).run(name, argc, argv);
}

}  // namespace vitrine::examples
