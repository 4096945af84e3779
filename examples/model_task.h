// What programs that train a model on items of a data set have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_runs.h"
#include "nn/data/loader.h"
#include "nn/metrics/accuracy.h"
#include "nn/text/tokenizer.h"
#include "nn/training/inspect_attention.h"

namespace vitrine::examples {

/// A task without a loss, whose batches come from a data set. `batch_of` makes a batch of items.
template <class Item>
nn::training::Task make_task(nn::Module& model, const nn::Split<Item>& items,
                             const std::function<nn::Batch(std::span<const Item>)>& batch_of,
                             const RunSettings& run) {
  const auto& [training, held_out] = items;
  check(training.size() > 0 && held_out.size() > 0,
        "the data have {} training and {} held-out items, wanted at least one of each", training.size(),
        held_out.size());
  const auto loader = std::make_shared<nn::Loader>(
      training, nn::shuffled_batches(training.size(), run.batch, run.seed), batch_of, 2);
  const auto whole = nn::Loader(held_out, nn::ordered_batches(held_out.size(), 100), batch_of).whole();
  return {.model = model,
          .batch = [loader](int64_t index) { return loader->batch(index); },
          .validation = [whole] { return whole; },
          .loss = {},
          .setting = {{"seed", std::to_string(run.seed)},
                      {"batch", std::to_string(run.batch)},
                      {"training items", std::to_string(training.size())}}};
}

/// The names 0 … count − 1.
inline std::vector<std::string> numbers(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// A grid of numbers [rows, columns] as a picture.
inline nn::report::ShadedTable picture(std::string title, const Tensor& grid, std::string explanation) {
  return {.title = std::move(title),
          .explanation = std::move(explanation),
          .row_title = "row",
          .column_title = "column",
          .rows = numbers(grid.size(0)),
          .columns = numbers(grid.size(1)),
          .values = grid.values(),
          .is_picture = true};
}

/// Adds the confusion matrix of the validation split. The last tensor of a batch has the true
/// classes.
inline void add_confusion(const std::vector<std::string>& classes, const nn::training::Task& task,
                          const std::function<Tensor(const std::vector<Tensor>&)>& logits,
                          nn::report::RunRecord& record) {
  record.confusion = {classes, std::vector<double>(classes.size() * classes.size())};
  for (const nn::Batch& batch : task.validation())
    std::ranges::transform(nn::confusion_counts(logits(batch.tensors), batch.tensors.back()),
                           record.confusion.counts, record.confusion.counts.begin(), std::plus());
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

}  // namespace vitrine::examples
