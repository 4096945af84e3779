// Trains a pointer-generator with coverage to write headlines, and a decoder that cannot copy.
//
//   write_headlines
//   write_headlines --no-coverage --steps 1000
//
// The names of the held-out articles occur nowhere in the training data (nn/data/synthetic). The
// pointer-generator copies them from the article. The plain decoder can only write <unk>.
#include <fmt/ranges.h>

#include <map>

#include "examples/model_runs.h"
#include "nn/data/synthetic/headlines.h"
#include "nn/models/pointer_generator.h"
#include "nn/training/tasks/translation.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Headline, synthetic::headlines, synthetic::Part;

namespace {

constexpr int64_t kUnseen = 4;  // an article has three names

struct Settings {
  RecurrentEncoderDecoderOptions model = {
      .context = 8, .width = 64, .feeding = Feeding::attentional, .coverage = true};
  double coverage_weight = 1;
  BeamOptions search;
  examples::RunSettings run = {
      .training = {.steps = 600, .weight_decay = 0}, .schedule = {.lr = 4e-3}, .batch = 32};
  int64_t count = 500;

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"source-vocabulary", "vocabulary", "coverage"}) o.remove(name);
    o.flag("no-coverage", model.coverage, false, "the score does not read the earlier weights");
    o("coverage-weight", coverage_weight, "weight of the coverage loss").at_least(0);
    o("count", count, "held-out articles that get a headline").at_least(1).decides(Role::files);
    search.list(o);
    run.list(o);
  }
};

Dataset<SentencePair> pairs(Part part, int64_t size, uint64_t seed = 0) {
  return mapped(headlines(part, size, seed), [](const Headline& h) {
    return SentencePair{fmt::format("{}", fmt::join(h.article, " ")),
                        fmt::format("{}", fmt::join(h.headline, " "))};
  });
}

/// The words that are frequent in training, which no name is.
VocabularyTable frequent_words() {
  std::map<std::string, int> counts;
  for (const Headline& item : headlines(Part::training, 2000)) {
    for (const std::string& word : item.article) ++counts[word];
    for (const std::string& word : item.headline) ++counts[word];
  }
  VocabularyTable table({"<unk>", "<end>"});
  for (const auto& [word, count] : counts)
    if (count >= 100) table.add(word);
  return table;
}

/// Trains a model. Without a loss of its own, that is the cross-entropy.
report::RunRecord train(const Settings& s, const std::string& name, Seq2SeqModel& model,
                        const training::PairTokenizer& words,
                        const std::function<Tensor(const std::vector<Tensor>&)>& loss = {}) {
  std::vector<SentencePair> held_out;
  for (const SentencePair& pair : pairs(Part::held_out, s.count, 1)) held_out.push_back(pair);
  training::Task task = training::translation(model, words, pairs(Part::training, 20000), held_out,
                                              {.batch = s.run.batch, .seed = s.run.seed});
  if (loss) task.loss = loss;
  task.metrics = {
      {.name = "% right",
       .of_split = [&](double) { return training::percent_exact(model, words, held_out, {.beam = 1}); },
       .format = "{:.1f}"}};
  report::RunRecord record = examples::train(task, s, name);
  training::inspect_attention(model, words, held_out[0], record);
  record.words.writes_text = true;
  record.prompt = held_out[0].source + "\n→ ";
  record.sample = training::translate(model, words, {held_out[0].source}, s.search)[0];
  examples::say(stdout, "{}{}\n{}: {} parameters; {:.1f} % of {} held-out headlines are right\n\n",
                record.prompt, record.sample, name, model.parameter_count(),
                training::percent_exact(model, words, held_out, s.search), s.count);
  return record;
}

void run(const Settings& s, const std::string& title) {
  const VocabularyTable table = frequent_words();
  RecurrentEncoderDecoderOptions options = s.model;
  options.source_vocabulary = options.vocabulary = table.size();
  manual_seed(s.run.seed);
  PointerGenerator pointer({.base = options, .unseen = kUnseen});
  options.coverage = false;
  RecurrentEncoderDecoder plain(options);
  const auto loss = [&](const auto& x) { return pointer.loss(x[0], x[1], x[2], x[3], s.coverage_weight); };
  const auto of_plain = train(s, "plain decoder", plain, {table, 0});
  const auto of_pointer = train(s, "pointer-generator", pointer, {table, kUnseen}, loss);
  examples::write_comparison(s.run, title, {of_plain, of_pointer});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "write_headlines", "Trains a pointer-generator, and a decoder that cannot copy.",
      "  write_headlines\n  write_headlines --no-coverage --steps 1000", Settings(), argc, argv, run);
}
