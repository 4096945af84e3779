// The options of sentence_vectors, and its batches.
#pragma once

#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "nn/data/joined_texts.h"
#include "nn/data/synthetic/grammar.h"
#include "nn/models/stack_settings.h"

namespace vitrine::examples {

struct VectorSettings {
  std::vector<std::string> views = {"dropout", "pairs"};
  std::vector<double> temperatures = {1, 0.0333};
  int64_t seeds = 1, width = 64, layers = 2;
  double dropout = 0.1;
  bool recompute_blocks = false;
  RunSettings run = {.training = {.steps = 400, .weight_decay = 0.01},
                     .schedule = {.final_lr = 0, .warmup = 40}};

  void list(nn::OptionList& o) {
    o.group("Runs");
    o("views", views, "what the two views of a sentence are")
        .one_of({"dropout", "pairs"})
        .decides(nn::Role::files);
    o("temperatures", temperatures, "by which cosines are divided").above(0).decides(nn::Role::files);
    o("seeds", seeds, "runs of each kind").at_least(1).decides(nn::Role::files);
    o.group("Model");
    o("width", width, "channels").at_least(1);
    o("layers", layers, "blocks").at_least(1);
    o("dropout", dropout, "dropout probability").at_least(0).below(1);
    nn::list_checkpoint_blocks(recompute_blocks, o);
    run.list(o);
    o.remove("seed");
    o.find("batch")->at_least(2);
  }
};

constexpr int64_t kContext = 32, kPairs = 50000, kHeldOut = 1000;

/// Ids and lengths of the first sentences, then of the second ones.
inline nn::Batch batch_of(const nn::PipelineTokenizer& tokenizer,
                          std::span<const nn::synthetic::Paraphrase> pairs) {
  std::vector<nn::JoinedTexts> first, second;
  for (const auto& pair : pairs) {
    first.push_back(nn::join_texts(tokenizer, pair.first, {}, kContext));
    second.push_back(nn::join_texts(tokenizer, pair.second, {}, kContext));
  }
  nn::Batch batch = nn::joined_batch(first, 0);
  const nn::Batch other = nn::joined_batch(second, 0);
  return {{batch.tensors[0], batch.tensors[1], other.tensors[0], other.tensors[1]}, batch.tokens};
}

/// One of both sentences, as both views.
inline nn::Dataset<nn::synthetic::Paraphrase> twice(const nn::Dataset<nn::synthetic::Paraphrase>& pairs) {
  return {pairs.size(), [pairs](int64_t i) {
            const auto pair = pairs[i];
            const std::string& one = i % 2 == 0 ? pair.first : pair.second;
            return nn::synthetic::Paraphrase{one, one};
          }};
}

}  // namespace vitrine::examples
