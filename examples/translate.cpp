// Trains an encoder-decoder Transformer to translate. By default it writes dates as numbers:
// "march 3, 2021" → "2021-03-03".
//
//   translate
//   vitrine translate reports/translate/mixer_standard/checkpoint.safetensors 'march 3, 2021'
//
// Characters are the tokens, and no form of one date in eight is in the training data
// (nn/data/synthetic/dates.h). --data reads parallel text, whose tokens are byte pairs; then BLEU
// counts. At the end, beam search translates the held-out data.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "examples/parallel_text.h"
#include "nn/models/encoder_decoder.h"
#include "nn/training/checkpoint.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Settings {
  EncoderDecoderOptions model = {
      .source_context = 30, .context = 11, .width = 64, .encoder_layers = 2, .decoder_layers = 2};
  BeamOptions search = {.beam = 3};
  examples::RunSettings run = {.training = {.steps = 1200}, .schedule = {.lr = 3e-3}, .batch = 64};
  examples::ParallelTextOptions data;

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"source-vocabulary", "vocabulary"}) o.remove(name);
    data.list(o);
    search.list(o);
    run.list(o);
  }
};

void run(const Settings& s, const std::string& title) {
  const examples::ParallelText text = s.data.read();
  EncoderDecoderOptions options = s.model;
  options.source_vocabulary = options.vocabulary = text.tokenizer->size();
  manual_seed(s.run.seed);
  EncoderDecoder model(options);
  training::Task task = training::translation(model, *text.tokenizer, text.training, text.held_out,
                                              s.data.batches(s.run.batch, s.run.seed));
  training::keep_tokenizer(task, *text.tokenizer);
  std::vector<SentencePair> held_out;
  for (const SentencePair& pair : text.held_out) held_out.push_back(pair);
  task.metrics = {{.name = text.measure(),
                   .of_split = [&](double) { return text.quality(model, held_out, {.beam = 1}); },
                   .format = "{:.1f}"}};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.mixer);
  training::inspect_attention(model, *text.tokenizer, held_out.at(0), record);
  const std::vector<SentencePair> first(held_out.begin(),
                                        held_out.begin() + std::min(5L, text.held_out.size()));
  record.examples = {"Held-out pairs", {"source", "target", "found"}, {}};
  for (const SentencePair& pair : first) {
    const std::string found = training::translate(model, *text.tokenizer, {pair.source}, s.search)[0];
    examples::say(stdout, "{:<30} → {}\n", pair.source, found);
    record.examples.rows.push_back({pair.source, pair.target, found});
  }
  examples::say(stdout, "{} parameters; {:.1f} {} of {} held-out pairs by beam search\n",
                model.parameter_count(), text.quality(model, held_out, s.search), text.measure(),
                held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "translate", "Trains an encoder-decoder Transformer to translate.",
      "  translate\n"
      "  translate --data train.en.gz,train.de.gz --validation val.en.gz,val.de.gz --source-context 80 "
      "--context 80 --width 256 --steps 8000",
      Settings(), argc, argv, run);
}
