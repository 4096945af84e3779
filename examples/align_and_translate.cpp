// Trains recurrent encoder-decoders, without and with attention: "march 3, 2021" → "2021-03-03".
//
//   align_and_translate [--scores none,additive]      --help shows examples
//
// No form of one date in eight is in the training data. The report has the share of these that are
// right, by the length of the source, and alignments. --data reads parallel text; then BLEU counts.
#include <algorithm>
#include <memory>

#include "examples/model_runs.h"
#include "nn/data/synthetic/dates.h"
#include "nn/models/recurrent_encoder_decoder.h"
#include "nn/text/characters.h"
#include "nn/text/train_bpe.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/translation.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Settings {
  RecurrentEncoderDecoderOptions model = {.context = 11, .width = 64};
  examples::RunSettings run = {.training = {.steps = 400, .weight_decay = 0}, .schedule = {.lr = 4e-3}};
  BeamOptions search = {.beam = 3};
  std::vector<std::string> scores = {"none", "additive"}, data, validation;
  int64_t vocabulary = 4000;

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"score", "source-vocabulary", "vocabulary"}) o.remove(name);
    o.group("Data and comparison");
    o("scores", scores, "trains a model with each: none, dot, general, concat, additive")
        .decides(Role::files);
    o("data", data, "source and target file, lines that belong together; by default dates")
        .decides(Role::files);
    o("validation", validation, "the same for validation").decides(Role::files);
    o("vocabulary", vocabulary, "tokens of BPE, for --data").at_least(257);
    search.list(o);
    run.list(o);
  }
};

struct Corpus {
  Dataset<SentencePair> training, held_out;
  std::unique_ptr<Tokenizer> tokenizer;
};

Corpus read(const Settings& s) {
  const auto dates = [](synthetic::Part part, int64_t size) {
    return mapped(synthetic::dates(part, size), [](const synthetic::WrittenDate& d) {
      return SentencePair{d.written, d.iso};
    });
  };
  if (s.data.empty())
    return {dates(synthetic::Part::training, 50000), dates(synthetic::Part::held_out, 999),
            std::make_unique<CharacterVocabulary>("\n ,-.0123456789abcdefghijklmnopqrstuvwxyz")};
  check(s.data.size() == 2 && s.validation.size() == 2,
        "{} and {} files of --data and --validation, wanted two each", s.data.size(), s.validation.size());
  const auto training = read_parallel_text(s.data[0], s.data[1]);
  std::string text;
  for (const SentencePair& pair : training) text += pair.source + "\n" + pair.target + "\n";
  return {training, read_parallel_text(s.validation[0], s.validation[1]),
          std::make_unique<PipelineTokenizer>(train_bpe(text, {.vocabulary = s.vocabulary}))};
}

void run(const Settings& s, const std::string& title) {
  const Corpus corpus = read(s);
  std::vector<SentencePair> sorted;
  for (const SentencePair& pair : corpus.held_out) sorted.push_back(pair);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& x, const auto& y) { return x.source.size() < y.source.size(); });
  const auto third = std::ssize(sorted) / 3;
  const bool is_text = !s.data.empty();
  const char* const measure = is_text ? "BLEU" : "% right";
  std::vector<report::RunRecord> records;
  for (const std::string& score : s.scores) {
    RecurrentEncoderDecoderOptions options = s.model;
    options_of(options).find("score")->read({score}, "--scores");
    options.source_vocabulary = options.vocabulary = corpus.tokenizer->size();
    manual_seed(s.run.seed);
    RecurrentEncoderDecoder model(options);
    training::Task task = training::translation(model, *corpus.tokenizer, corpus.training, corpus.held_out,
                                                {s.run.batch, s.run.seed});
    training::keep_tokenizer(task, *corpus.tokenizer);
    const auto quality = [&](const std::vector<SentencePair>& pairs, const BeamOptions& search) {
      return (is_text ? training::translation_bleu : training::percent_exact)(model, *corpus.tokenizer, pairs,
                                                                              search);
    };
    for (int64_t i = 0; i < 3; ++i) {
      const std::vector<SentencePair> part(sorted.begin() + i * third, sorted.begin() + (i + 1) * third);
      const char* const names[] = {"short", "middle", "long"};
      task.metrics.push_back({.name = fmt::format("{}, {} sources", measure, names[i]),
                              .of_split = [=](double) { return quality(part, {.beam = 1}); },
                              .format = "{:.1f}"});
    }
    report::RunRecord record = examples::train(task, s, "score " + score);
    for (int64_t i = 0; i < 3; ++i)
      training::inspect_attention(model, *corpus.tokenizer, sorted[(2 * i + 1) * third / 2], record);
    for (const auto& metric : record.metrics)
      examples::say(stdout, "{} {}; ", formatted(metric.format, metric.last()), metric.name);
    examples::say(stdout, "score {}: {:.1f} {} of all by beam search, with {} parameters\n", score,
                  quality(sorted, s.search), measure, model.parameter_count());
    records.push_back(record);
  }
  examples::write_comparison(s.run, title, records);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "align_and_translate", "Trains recurrent encoder-decoders and compares their attention.",
      "  align_and_translate --scores dot --view local-p --feeding attentional\n"
      "  align_and_translate --data train.de.gz,train.en.gz --validation val.de.gz,val.en.gz --context 80 "
      "--width 256 --steps 20000",
      Settings(), argc, argv, run);
}
