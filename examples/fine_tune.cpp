// Pretrains a BERT on masked tokens, and adapts it to tasks in four ways, next to training from
// scratch: the whole model, its last layer, low-rank changes (LoRA), and a learned prompt.
//
//   fine_tune
//   fine_tune --data a.txt,b.txt.gz --classes positive.txt,negative.txt
//
// By default, sentences and tasks come from a small grammar (nn/data/synthetic/grammar.h).
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "examples/fine_tune_data.h"
#include "examples/fine_tune_page.h"
#include "examples/fine_tune_ways.h"
#include "nn/data/loader.h"
#include "nn/text/train_word_piece.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/text_encoding.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using report::RunRecord, synthetic::Part, synthetic::SentenceTask;

namespace {

const char* const kExamples =
    "  fine_tune\n"
    "  fine_tune --data a.txt,b.txt.gz --classes positive.txt,negative.txt";

RunRecord pretrain(TextEncoder& model, const FineTuneSettings& s, const PipelineTokenizer& tokenizer) {
  const auto rows = [&](Part part, int64_t size) {
    return mapped(pretraining_texts(s, part, size),
                  [&](const SentenceTask& item) { return encoded(tokenizer, item, s.context); });
  };
  const auto collate = [&](std::span<const JoinedTexts> some) { return joined_batch(some, kPadding); };
  const auto texts = rows(Part::training, 20000), held_out = rows(Part::held_out, 250);
  Loader loader(texts, shuffled_batches(texts.size(), s.run.batch, /*seed=*/0), collate, 2);
  const Loader validation(held_out, ordered_batches(held_out.size(), 100), collate);
  FineTuneSettings own = s;
  own.run.training.steps = s.pretraining;
  own.run.training.evaluate_every = std::max<int64_t>(1, s.pretraining / 5);
  own.run.training.best_by = "", own.run.training.patience = 0;
  own.run.schedule = {
      .name = "linear", .lr = s.pretraining_rate, .final_lr = 0, .warmup = s.pretraining / 10};
  training::Task task = training::masked_language_modeling(
      model, {[&](int64_t i) { return loader.batch(i); }, validation.whole()},
      TokenMasking(tokenizer, /*seed=*/0));
  task.setting = s.setting();
  training::keep_tokenizer(task, tokenizer);
  if (!s.save.empty()) check_can_save_pretrained(model);
  RunRecord record = train(std::move(task), own, "pretraining");
  save(model, s, tokenizer, "pretraining");
  write_record(s.run, record);
  return record;
}

/// Trains a model of its own for one task. The record's `parameters` are those that are trained.
RunRecord adapt(TextEncoder& pretrained, const Way& way, const TextTask& task, uint64_t seed,
                const FineTuneSettings& s, const PipelineTokenizer& tokenizer) {
  manual_seed(seed);
  TextEncoder model = model_for(way, s, pretrained, task.classes);
  const auto collate = [&](std::span<const SentenceTask> some) {
    return labelled_batch(tokenizer, some, s.context);
  };
  Loader loader(task.training, shuffled_batches(task.training.size(), s.run.batch, seed), collate);
  const Loader validation(task.held_out, ordered_batches(task.held_out.size(), 100), collate);
  FineTuneSettings own = s;
  own.run.schedule.lr = way.rate;
  own.run.training.progress = false;
  training::Task classification =
      training::text_classification(model, {[&](int64_t i) { return loader.batch(i); }, validation.whole()});
  classification.setting = s.setting();
  classification.setting["pooling"] = s.pooling;
  training::keep_tokenizer(classification, tokenizer);
  RunRecord record =
      train(std::move(classification), own, fmt::format("{} {} {}", task.name, way.name, seed));
  record.parameters = 0;
  for (const Parameter& p : model.parameters()) record.parameters += p.requires_grad() ? p.numel() : 0;
  write_record(s.run, record);
  save(model, s, tokenizer, record.name, way.lora);
  record.name = way.name;
  return record;
}

void run(const FineTuneSettings& s, const std::string&) {
  std::string text;
  for (const SentenceTask& item : pretraining_texts(s, Part::training, 2000))
    text += item.first + "\n" + item.second + "\n";
  const PipelineTokenizer tokenizer = train_word_piece(text, {.vocabulary = s.vocabulary});
  TextEncoder pretrained = make_model(s, tokenizer.size());
  const RunRecord masked = pretrain(pretrained, s, tokenizer);
  if (training::interrupted()) return;
  say(stdout, "{:.1f} % of the masked tokens are recovered, by a model of {} parameters\n\n",
      100 * masked.metrics[0].last(), masked.parameters);
  TaskRuns runs;
  for (const TextTask& task : tasks_of(s, 0)) runs.tasks.push_back(task.name);
  for (const Way& way : ways(s)) {
    runs.of.emplace_back();
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(s.seeds); ++seed) {
      runs.of.back().emplace_back();
      for (const TextTask& task : tasks_of(s, seed)) {
        runs.of.back().back().push_back(adapt(pretrained, way, task, seed, s, tokenizer));
        if (training::interrupted()) return;
      }
    }
  }
  show(runs, masked, s.run.out + "/report.html");
}

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("fine_tune", "Pretrains a BERT, and fine-tunes it in four ways.", kExamples,
                           FineTuneSettings(), argc, argv, run);
}
