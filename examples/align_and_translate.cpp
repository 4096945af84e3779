// Trains recurrent encoder-decoders, without and with attention: "march 3, 2021" → "2021-03-03".
//
//   align_and_translate [--scores none,additive]      --help shows examples
//
// No form of one date in eight is in the training data. The report has the share of these that are
// right, by the length of the source, and alignments. --data reads parallel text; then BLEU counts.
#include <algorithm>

#include "examples/model_runs.h"
#include "examples/parallel_text.h"
#include "nn/models/recurrent_encoder_decoder.h"
#include "nn/training/checkpoint.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Settings {
  RecurrentEncoderDecoderOptions model = {.context = 11, .width = 64};
  examples::RunSettings run = {.training = {.steps = 400, .weight_decay = 0}, .schedule = {.lr = 4e-3}};
  BeamOptions search = {.beam = 3};
  std::vector<std::string> scores = {"none", "additive"};
  examples::ParallelTextOptions data;

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"score", "source-vocabulary", "vocabulary"}) o.remove(name);
    o.group("Comparison");
    o("scores", scores, "trains a model with each: none, dot, general, concat, additive")
        .decides(Role::files);
    data.list(o);
    search.list(o);
    run.list(o);
  }
};

void run(const Settings& s, const std::string& title) {
  const examples::ParallelText text = s.data.read();
  std::vector<SentencePair> sorted;
  for (const SentencePair& pair : text.held_out) sorted.push_back(pair);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& x, const auto& y) { return x.source.size() < y.source.size(); });
  const auto third = std::ssize(sorted) / 3;
  std::vector<report::RunRecord> records;
  for (const std::string& score : s.scores) {
    RecurrentEncoderDecoderOptions options = s.model;
    options_of(options).find("score")->read({score}, "--scores");
    options.source_vocabulary = options.vocabulary = text.tokenizer->size();
    manual_seed(s.run.seed);
    RecurrentEncoderDecoder model(options);
    training::Task task = training::translation(model, *text.tokenizer, text.training, text.held_out,
                                                s.data.batches(s.run.batch, s.run.seed));
    training::keep_tokenizer(task, *text.tokenizer);
    for (int64_t i = 0; i < 3; ++i) {
      const std::vector<SentencePair> part(sorted.begin() + i * third, sorted.begin() + (i + 1) * third);
      const char* const names[] = {"short", "middle", "long"};
      task.metrics.push_back(
          {.name = fmt::format("{}, {} sources", text.measure(), names[i]),
           .of_split = [&, part](double) { return text.quality(model, part, {.beam = 1}); },
           .format = "{:.1f}"});
    }
    report::RunRecord record = examples::train(task, s, "score " + score);
    for (int64_t i = 0; i < 3; ++i)
      training::inspect_attention(model, *text.tokenizer, sorted[(2 * i + 1) * third / 2], record);
    for (const auto& metric : record.metrics)
      examples::say(stdout, "{} {}; ", formatted(metric.format, metric.last()), metric.name);
    examples::say(stdout, "score {}: {:.1f} {} of all by beam search, with {} parameters\n", score,
                  text.quality(model, sorted, s.search), text.measure(), model.parameter_count());
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
