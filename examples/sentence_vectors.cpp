// Trains vectors of sentences by a contrastive loss (SimCSE, Gao et al. 2021), and shows that the
// temperature decides whether it works.
//
//   sentence_vectors
//
// Two vectors of one meaning have to be nearer to each other than to all others of the batch. The
// two views of `dropout` are one sentence, read twice with dropout. Those of `pairs` are a sentence
// and its paraphrase. Cosines are in [−1, 1], so at temperature 1 a softmax over n of them gives
// the right one at most e²/(e² + n − 1): the loss cannot fall far, and separates little.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "examples/print_table.h"
#include "examples/sentence_vectors_data.h"
#include "nn/data/loader.h"
#include "nn/report/seeds.h"
#include "nn/text/train_word_piece.h"
#include "nn/training/tasks/text_encoding.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::examples;
using synthetic::Paraphrase, synthetic::paraphrases, synthetic::Part;

namespace {

report::RunRecord train_once(const VectorSettings& s, const std::string& views, double temperature,
                             int64_t seed, const PipelineTokenizer& tokenizer) {
  manual_seed(static_cast<uint64_t>(seed));
  TextEncoder model({.vocabulary = tokenizer.size(),
                     .embedding_norm = true,
                     .stack = {.block = {.mixer = {.width = s.width, .heads = 4, .context = kContext},
                                         .dropout = s.dropout},
                               .layers = s.layers,
                               .recompute_blocks = s.recompute_blocks}});
  const auto collate = [&](std::span<const Paraphrase> pairs) { return batch_of(tokenizer, pairs); };
  const auto pairs = paraphrases(Part::training, kPairs);
  Loader loader(views == "pairs" ? pairs : twice(pairs),
                shuffled_batches(kPairs, s.run.batch, static_cast<uint64_t>(seed)), collate, 2);
  const std::vector<Batch> held_out =
      Loader(paraphrases(Part::held_out, kHeldOut), ordered_batches(kHeldOut, kHeldOut), collate).whole();
  const std::string method = fmt::format("{}, temperature {:.3g}", views, temperature);
  training::Task task =
      training::text_vectors(model, {[&](int64_t i) { return loader.batch(i); }, held_out}, temperature);
  task.setting = {{"batch", std::to_string(s.run.batch)},
                  {"dropout", std::to_string(s.dropout)},
                  {"temperature", fmt::format("{}", temperature)}};
  report::RunRecord record =
      examples::train(std::move(task), s, s.seeds > 1 ? fmt::format("{}, seed {}", method, seed) : method);
  record.settings.insert(record.settings.end(),
                         {{"views of the run", views}, {"temperature", fmt::format("{}", temperature)}});
  record.method = method, record.seed = std::to_string(seed);
  return record;
}

void run(const VectorSettings& s, const std::string& title) {
  std::string text;
  for (const Paraphrase& pair : paraphrases(Part::training, 5000))
    text += pair.first + "\n" + pair.second + "\n";
  const PipelineTokenizer tokenizer = train_word_piece(text, {.vocabulary = 300});
  std::vector<report::RunRecord> runs;
  report::TextTable table{.title = "1000 held-out sentences and their paraphrases",
                          .columns = {"views", "retrieval, %", "alignment", "uniformity"}};
  for (const std::string& views : s.views)
    for (const double temperature : s.temperatures)
      for (int64_t seed = 0; seed < s.seeds; ++seed) {
        runs.push_back(train_once(s, views, temperature, seed, tokenizer));
        if (training::interrupted()) return;
      }
  const auto values = [&](size_t metric) {
    return report::means_over_seeds(runs, [=](const auto& run) { return run.metrics[metric].last(); });
  };
  const auto retrieval = values(0), near = values(1), even = values(2);
  std::string summary;
  for (size_t i = 0; i < retrieval.size(); ++i) {
    const double found = 100 * retrieval[i].mean.mean;
    table.rows.push_back({retrieval[i].method, fmt::format("{:.1f}", found),
                          fmt::format("{:.3f}", near[i].mean.mean),
                          fmt::format("{:.2f}", even[i].mean.mean)});
    summary += fmt::format("{}{}: {:.1f} %", i == 0 ? "" : "; ", retrieval[i].method, found);
  }
  print_table(table);
  say(stdout, "paraphrases that are found: {}\n", summary);
  write_comparison(s.run, title, runs);
}

}  // namespace

int main(int argc, char** argv) {
  return run_model_program("sentence_vectors", "Trains vectors of sentences by a contrastive loss.",
                           "  sentence_vectors", VectorSettings(), argc, argv, run);
}
