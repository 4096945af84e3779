// The options of fine_tune, and its texts: sentences of a grammar, or lines of files.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_runs.h"
#include "nn/data/joined_texts.h"
#include "nn/data/lines.h"
#include "nn/data/synthetic/grammar.h"
#include "nn/models/stack_settings.h"
#include "nn/transformer/residual.h"

namespace vitrine::examples {

struct FineTuneSettings {
  std::vector<std::string> data, classes;
  std::string save;
  int64_t vocabulary = 300, context = 40, width = 64, layers = 2, heads = 4;
  std::string mixer = "standard", pooling = "first";
  nn::Residual residual = nn::Residual::post;
  std::vector<std::string> ways = {"scratch", "whole", "last", "lora", "prompt"};
  double dropout = 0.1;
  bool recompute_blocks = false;
  int64_t pretraining = 4000, examples = 1000, seeds = 3, prompt = 8, rank = 4;
  double pretraining_rate = 3e-3;
  /// Of each task. The smaller parts have a multiple of the learning rate.
  RunSettings run = {.training = {.steps = 300, .evaluate_every = 60, .weight_decay = 0.01, .beta2 = 0.999},
                     .schedule = {.name = "linear", .final_lr = 0, .warmup = 30},
                     .batch = 32};

  void list(nn::OptionList& o) {
    o.group("Texts");
    o("data", data, "text files, a text in each line, for the pretraining; by default sentences of a grammar")
        .decides(nn::Role::files);
    o("classes", classes, "text files, one for each class, to classify; by default four tasks of the grammar")
        .decides(nn::Role::files);
    o("examples", examples, "training examples of each task").at_least(1);
    o.group("Model");
    o("vocabulary", vocabulary, "word pieces").at_least(6);
    o("context", context, "the longest text, in word pieces").at_least(5);
    o("width", width, "channels").at_least(1);
    o("layers", layers, "blocks").at_least(1);
    o("heads", heads, "attention heads").at_least(1);
    o("mixer", mixer, "what mixes the positions, such as rotary");
    o("residual", residual, "where the norms are: BERT's are post");
    o("pooling", pooling,
      "what the classes are read from: the first position, as BERT does, or the mean of all")
        .one_of({"first", "mean"});
    o("dropout", dropout, "dropout probability").at_least(0).below(1);
    nn::list_checkpoint_blocks(recompute_blocks, o);
    o("prompt", prompt, "learned vectors of prompt tuning").at_least(1);
    o("rank", rank, "rank of LoRA").at_least(1);
    o.group("Pretraining");
    o("pretraining", pretraining, "steps on masked tokens, with five evaluations")
        .at_least(1)
        .decides(nn::Role::schedule);
    o("pretraining-rate", pretraining_rate, "learning rate of the pretraining")
        .above(0)
        .decides(nn::Role::schedule);
    o.group("Training");
    o("ways", ways, "how the tasks are learned")
        .one_of({"scratch", "whole", "last", "lora", "prompt"})
        .decides(nn::Role::files);
    o("seeds", seeds, "runs of each way; their mean has an interval").at_least(1).decides(nn::Role::files);
    run.list(o);
    o.remove("seed");
    o("save", save, "folder for the trained models, as published BERTs; a learned prompt is no part of one")
        .unless(
            [this] { return pooling == "mean" ? "a BERT reads the classes from the first position" : ""; })
        .decides(nn::Role::files);
    o.find("steps")->help = "steps on each task";
    o.find("lr")->help = "maximum learning rate of all parameters; smaller parts have a multiple of it";
  }

  /// What a run that goes on must have in common with its beginning.
  std::map<std::string, std::string> setting() const {
    return {{"texts", fmt::format("{} {}", fmt::join(data, ","), fmt::join(classes, ","))},
            {"pretraining", fmt::format("{} steps at {}", pretraining, pretraining_rate)},
            {"examples", std::to_string(examples)},
            {"vocabulary", std::to_string(vocabulary)},
            {"heads", std::to_string(heads)},
            {"mixer", mixer},
            {"dropout", std::to_string(dropout)},
            {"batch", std::to_string(run.batch)}};
  }
};

constexpr uint64_t kPretraining = 1000;  // a seed that no task has
constexpr int64_t kPadding = 0;          // [PAD] of train_word_piece

using Texts = nn::Dataset<nn::synthetic::SentenceTask>;

/// A task: its classes, and its training and held-out examples.
struct TextTask {
  std::string name;
  int64_t classes;
  Texts training, held_out;
};

/// The lines of files, which are in memory; the label is the number of the file. A hash of a line
/// decides its part (synthetic::part_of), so that no held-out line is in the pretraining.
inline Texts read_texts(const std::vector<std::string>& paths, nn::synthetic::Part part) {
  std::vector<nn::synthetic::SentenceTask> all;
  for (size_t i = 0; i < paths.size(); ++i) {
    const size_t before = all.size();
    for (const std::string& line : nn::read_lines(paths[i], "fine_tune"))
      if (!line.empty() && nn::synthetic::part_of(line) == part)
        all.push_back({line, "", static_cast<double>(i)});
    check(
        all.size() > before,
        "{}: no line is in the {} part; wanted a text in each line, of which about one in eight is held out",
        paths[i], part == nn::synthetic::Part::training ? "training" : "held-out");
  }
  return Texts(std::move(all));
}

/// Of the pairs of a task those in which the second sentence agrees with the first.
inline Texts coherent(const Texts& pairs) {
  std::vector<nn::synthetic::SentenceTask> all;
  for (const auto& pair : pairs)
    if (pair.label == 1) all.push_back(pair);
  return Texts(std::move(all));
}

/// What the model is pretrained on: lines of files, or texts of the grammar, which are about `size`
/// single sentences and as many pairs that agree, as neighbouring sentences of a text do.
inline Texts pretraining_texts(const FineTuneSettings& s, nn::synthetic::Part part, int64_t size) {
  using namespace nn::synthetic;
  if (!s.data.empty()) return read_texts(s.data, part);
  const auto single = [](const std::vector<std::string>& words) {
    return SentenceTask{fmt::format("{}", fmt::join(words, " ")), "", 0};
  };
  return nn::concatenated<SentenceTask>({nn::mapped(grammar_sentences(part, size), single),
                                         coherent(grammar_entailment(part, size, kPretraining)),
                                         coherent(grammar_questions(part, size, kPretraining))});
}

/// The tasks with training examples for a seed. The held-out examples are the same for all seeds.
inline std::vector<TextTask> tasks_of(const FineTuneSettings& s, uint64_t seed) {
  using namespace nn::synthetic;
  if (!s.classes.empty()) {
    const Texts all = read_texts(s.classes, Part::training);
    Generator random(seed);
    std::vector<SentenceTask> some;
    for (int64_t i = 0, n = all.size(); i < n && std::ssize(some) < s.examples; ++i)
      // Each choice of this many lines is equally likely
      if (random.next_below(n - i) < s.examples - std::ssize(some)) some.push_back(all[i]);
    return {{"files", std::ssize(s.classes), Texts(some), read_texts(s.classes, Part::held_out)}};
  }
  constexpr int64_t kHeldOut = 500;
  const auto task = [&](const char* name, int64_t classes, auto make) {
    return TextTask{name, classes, make(Part::training, s.examples, seed + 1),
                    make(Part::held_out, kHeldOut, 0)};
  };
  return {task("entailment", 2, grammar_entailment), task("similarity", 6, grammar_similarity),
          task("acceptability", 2, grammar_acceptability), task("questions", 2, grammar_questions)};
}

/// [CLS] text [SEP], or [CLS] first [SEP] second [SEP].
inline nn::JoinedTexts encoded(const nn::PipelineTokenizer& tokenizer,
                               const nn::synthetic::SentenceTask& item, int64_t longest) {
  const auto second = item.second.empty() ? std::nullopt : std::optional<std::string_view>(item.second);
  return nn::join_texts(tokenizer, item.first, second, longest);
}

/// The tensors ids, lengths and segments of joined_batch, and the labels.
inline nn::Batch labelled_batch(const nn::PipelineTokenizer& tokenizer,
                                std::span<const nn::synthetic::SentenceTask> items, int64_t longest) {
  std::vector<nn::JoinedTexts> rows;
  std::vector<int64_t> labels;
  for (const auto& item : items) {
    rows.push_back(encoded(tokenizer, item, longest));
    labels.push_back(static_cast<int64_t>(item.label));
  }
  nn::Batch batch = nn::joined_batch(rows, kPadding);
  batch.tensors.push_back(index_tensor(labels, {batch.tokens}));
  return batch;
}

}  // namespace vitrine::examples
