// Trains hierarchical attention to classify documents: words are pooled into sentences, and
// sentences into a document. The report shows the weights of both.
//
//   classify_documents --report documents.html
//   classify_documents --levels 1 --data rt-polarity.neg,rt-polarity.pos
//
// By default a document reports a visit, and one word of one sentence says whether the writer
// praises or complains. With --levels 1 a document is one sequence of words (aggregation).
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "examples/model_program.h"
#include "nn/data/lines.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/documents.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/hierarchical_attention.h"
#include "nn/text/words.h"
#include "ops/loss.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Document, synthetic::documents, synthetic::Part;

namespace {

struct Settings : examples::ModelSettings<HierarchicalAttentionOptions> {
  std::vector<std::string> data;
  int64_t least = 1;

  Settings() {
    training.steps = 200;
    schedule.lr = 3e-3;
  }
  void list(OptionList& o) {
    o.group("Data");
    o("data", data,
      "a text file for each class, with a document in each line; by default documents are generated")
        .decides(Role::files);
    o("least", least, "words that occur less often are unknown").at_least(1);
    ModelSettings::list(o);
  }
};

/// Generated documents, or each line of the files as a sentence, of which one in ten is held out.
/// At one level a document is one sequence.
Split<Document> read_documents(const Settings& s) {
  const auto of_line = [](const LabelledText& line) { return Document{{line.text}, line.label}; };
  if (!s.data.empty()) return held_out_split(mapped(read_classes(s.data), of_line), 10);
  const auto part = [&](Part which, int64_t size) {
    return mapped(documents(which, size), [one_level = s.model.levels == 1](Document d) {
      if (one_level) d.sentences = {fmt::format("{}", fmt::join(d.sentences, " "))};
      return d;
    });
  };
  return {part(Part::training, 20000), part(Part::held_out, 1000)};
}

/// Word ids [B, S, W], the numbers of words [B, S] and of sentences [B], and the classes [B].
Batch batch_of(std::span<const Document> all, const Tokenizer& tokenizer) {
  size_t most = 0;
  for (const Document& d : all) most = std::max(most, d.sentences.size());
  std::vector<std::vector<int64_t>> sentences(all.size() * most);
  std::vector<int64_t> counts, labels;
  for (size_t b = 0; b < all.size(); ++b) {
    for (size_t i = 0; i < all[b].sentences.size(); ++i) {
      const Tokens words = tokenizer.encode(all[b].sentences[i]);
      sentences[b * most + i].assign(words.begin(), words.end());
    }
    counts.push_back(std::ssize(all[b].sentences)), labels.push_back(all[b].label);
  }
  const Padded ids = pad_ids(sentences, 0);
  const int64_t batch = std::ssize(all), sentence = static_cast<int64_t>(most);
  return {{reshape(ids.values, {batch, sentence, -1}), reshape(ids.lengths, {batch, sentence}),
           index_tensor(counts, {batch}), index_tensor(labels, {batch})},
          batch};
}

/// The words of a document, shaded by attention.
void show_document(const HierarchicalAttention& model, const Batch& one, int64_t number,
                   const Tokenizer& tokenizer, report::RunRecord& record) {
  const auto& x = one.tensors;
  const auto read = model.forward(x[0], x[1], x[2]);
  for (int64_t i = 0; i < x[0].size(1); ++i) {
    const auto words = static_cast<int64_t>(select(select(x[1], 0, 0), 0, i).item());
    const auto row = [&](const Tensor& y) { return slice(select(select(y, 0, 0), 0, i), 0, 0, words); };
    const auto weights = row(read.word_weights).values();
    record.texts.push_back({fmt::format("{}.{}", number, i + 1),
                            examples::words_of(row(x[0]), tokenizer),
                            {weights.begin(), weights.end()},
                            select(select(read.sentence_weights, 0, 0), 0, i).item()});
  }
}

void classify(Settings& s) {
  const Split<Document> documents = read_documents(s);
  std::vector<std::string> texts;
  for (const Document& d : documents.training)
    texts.insert(texts.end(), d.sentences.begin(), d.sentences.end());
  const PipelineTokenizer tokenizer = whole_words(texts, s.least);
  s.model.words.vocabulary = tokenizer.size();
  s.model.classes = std::max<int64_t>(2, std::ssize(s.data));
  HierarchicalAttention model(s.model);
  const std::function batch = [&](std::span<const Document> all) { return batch_of(all, tokenizer); };
  const auto logits = [&](const auto& x) { return model.forward(x[0], x[1], x[2]).logits; };
  training::Task task = examples::make_task(model, documents, batch, s);
  task.loss = [&](const auto& x) { return cross_entropy(logits(x), x[3]); };
  task.metrics = {{.name = "accuracy", .of_batch = [&](const auto& x) { return accuracy(logits(x), x[3]); }}};
  task.words = {.item = "document", .loss_unit = "nats per document", .classes = s.model.classes};
  keep_tokenizer(task, tokenizer);
  const double right = examples::train_and_report(s, "Documents", task, [&](report::RunRecord& record) {
    for (int64_t i = 0; i < std::min<int64_t>(4, documents.held_out.size()); ++i) {
      const Document d = documents.held_out[i];
      show_document(model, batch({&d, 1}), i + 1, tokenizer, record);
    }
  });
  examples::say(stdout, "the class of {:.1f} % of {} held-out documents is right\n", 100 * right,
                documents.held_out.size());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program<Settings>(
      "classify_documents", "Trains hierarchical attention to classify documents.",
      "  classify_documents --report documents.html\n"
      "  classify_documents --levels 1 --data rt-polarity.neg,rt-polarity.pos --least 2",
      argc, argv, classify);
}
