// Trains hierarchical attention to classify documents: words are pooled into sentences, and
// sentences into a document. The report shows the weights of both.
//
//   classify_documents
//   classify_documents --levels 1 --data rt-polarity.neg,rt-polarity.pos
//
// By default a document reports a visit, and one word of one sentence says whether the writer
// praises or complains. With --levels 1 a document is one sequence of words (aggregation).
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "examples/classify_documents_data.h"
#include "examples/model_task.h"
#include "nn/metrics/accuracy.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "ops/loss.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Document;

namespace {

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

void run(const examples::DocumentSettings& s, const std::string& title) {
  const Split<Document> documents = examples::read_documents(s);
  std::vector<std::string> texts;
  for (const Document& d : documents.training)
    texts.insert(texts.end(), d.sentences.begin(), d.sentences.end());
  const PipelineTokenizer tokenizer = whole_words(texts, s.least);
  HierarchicalAttentionOptions options = s.model;
  options.words.vocabulary = tokenizer.size();
  options.classes = std::max<int64_t>(2, std::ssize(s.data));
  manual_seed(s.run.seed);
  HierarchicalAttention model(options);
  const std::function batch = [&](std::span<const Document> all) {
    return examples::batch_of(all, tokenizer);
  };
  const auto logits = [&](const auto& x) { return model.forward(x[0], x[1], x[2]).logits; };
  training::Task task = examples::make_task(model, documents, batch, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(logits(x), x[3]); };
  task.metrics = {{.name = "accuracy", .of_batch = [&](const auto& x) { return accuracy(logits(x), x[3]); }}};
  task.words = {.item = "document", .loss_unit = "nats per document", .classes = options.classes};
  training::keep_tokenizer(task, tokenizer);
  report::RunRecord record = examples::train(task, s, "hierarchical attention");
  const ModeScope evaluation(model, false);
  for (int64_t i = 0; i < std::min<int64_t>(4, documents.held_out.size()); ++i) {
    const Document d = documents.held_out[i];
    show_document(model, batch({&d, 1}), i + 1, tokenizer, record);
  }
  examples::say(stdout, "{} parameters; the class of {:.1f} % of {} held-out documents is right\n",
                model.parameter_count(), 100 * record.metrics[0].last(), documents.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "classify_documents", "Trains hierarchical attention to classify documents.",
      "  classify_documents\n"
      "  classify_documents --levels 1 --data rt-polarity.neg,rt-polarity.pos --least 2",
      examples::DocumentSettings(), argc, argv, run);
}
