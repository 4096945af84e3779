// The options of sentence_vectors, and its batches.
#pragma once

#include <string>
#include <vector>

#include "nn/data/joined_texts.h"
#include "nn/data/synthetic/grammar.h"
#include "nn/options.h"

namespace vitrine::examples {

struct VectorSettings {
  std::vector<std::string> views = {"dropout", "pairs"};
  std::vector<double> temperatures = {1, 0.0333};
  int64_t seeds = 1, steps = 400, batch = 64, width = 64, layers = 2;
  double dropout = 0.1, rate = 1e-3;
  std::string page;

  void list(nn::OptionList& o) {
    o.group("Runs");
    o("views", views, "what the two views of a sentence are").one_of({"dropout", "pairs"});
    o("temperatures", temperatures, "by which cosines are divided").above(0);
    o("seeds", seeds, "runs of each kind").at_least(1);
    o.group("Model and training");
    o("width", width, "channels").at_least(1);
    o("layers", layers, "blocks").at_least(1);
    o("dropout", dropout, "dropout probability").at_least(0).below(1);
    o("steps", steps, "optimizer steps").at_least(1);
    o("batch", batch, "sentences of a step").at_least(2);
    o("rate", rate, "learning rate").above(0);
    o.group("Files");
    o("page", page, "the report, an HTML file").decides(nn::Role::files);
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
