// The options of classify_documents, and its data.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "nn/data/lines.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/documents.h"
#include "nn/models/hierarchical_attention.h"
#include "nn/text/tokenizer.h"
#include "ops/view.h"

namespace vitrine::examples {

struct DocumentSettings {
  nn::HierarchicalAttentionOptions model;
  RunSettings run = {.training = {.steps = 200}, .schedule = {.lr = 3e-3}, .batch = 32};
  std::vector<std::string> data;
  int64_t least = 1;

  void list(nn::OptionList& o) {
    o.group("Data");
    o("data", data,
      "a text file for each class, with a document in each line; by default documents are generated")
        .decides(nn::Role::files);
    o("least", least, "words that occur less often are unknown").at_least(1);
    model.list(o);
    for (const char* name : {"vocabulary", "classes"}) o.remove(name);
    run.list(o);
  }
};

/// Generated documents, or each line of the files as a sentence, of which one in ten is held out.
/// At one level a document is one sequence.
inline nn::Split<nn::synthetic::Document> read_documents(const DocumentSettings& s) {
  const auto of_line = [](const nn::LabelledText& line) {
    return nn::synthetic::Document{{line.text}, line.label};
  };
  if (!s.data.empty()) return nn::held_out_split(nn::mapped(nn::read_classes(s.data), of_line), 10);
  const auto part = [&](nn::synthetic::Part which, int64_t size) {
    return nn::mapped(nn::synthetic::documents(which, size),
                      [one_level = s.model.levels == 1](nn::synthetic::Document d) {
                        if (one_level) d.sentences = {fmt::format("{}", fmt::join(d.sentences, " "))};
                        return d;
                      });
  };
  return {part(nn::synthetic::Part::training, 20000), part(nn::synthetic::Part::held_out, 1000)};
}

/// Word ids [B, S, W], the numbers of words [B, S] and of sentences [B], and the classes [B].
inline nn::Batch batch_of(std::span<const nn::synthetic::Document> all, const nn::Tokenizer& tokenizer) {
  size_t most = 0;
  for (const nn::synthetic::Document& d : all) most = std::max(most, d.sentences.size());
  std::vector<std::vector<int64_t>> sentences(all.size() * most);
  std::vector<int64_t> counts, labels;
  for (size_t b = 0; b < all.size(); ++b) {
    for (size_t i = 0; i < all[b].sentences.size(); ++i) {
      const nn::Tokens words = tokenizer.encode(all[b].sentences[i]);
      sentences[b * most + i].assign(words.begin(), words.end());
    }
    counts.push_back(std::ssize(all[b].sentences)), labels.push_back(all[b].label);
  }
  const nn::Padded ids = nn::pad_ids(sentences, 0);
  const int64_t batch = std::ssize(all), sentence = static_cast<int64_t>(most);
  return {{reshape(ids.values, {batch, sentence, -1}), reshape(ids.lengths, {batch, sentence}),
           index_tensor(counts, {batch}), index_tensor(labels, {batch})},
          batch};
}

}  // namespace vitrine::examples
