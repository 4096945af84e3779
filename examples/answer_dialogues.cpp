// Trains an encoder-decoder Transformer to answer in dialogues, in which an answer may depend on
// what was said before.
//
//   answer_dialogues
//   answer_dialogues --rounds 8 --mixer rotary --steps 1500
//
// The source is all that was said, a line for each turn, and the target is the answer. No dialogue
// of the test is in the training data (nn/data/synthetic/dialogues.h).
#include <fmt/ranges.h>

#include <span>

#include "examples/model_runs.h"
#include "nn/data/synthetic/dialogues.h"
#include "nn/models/encoder_decoder.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/translation.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Dialogue, synthetic::dialogues, synthetic::Part;

namespace {

struct Settings {
  EncoderDecoderOptions model = {
      .source_context = 160, .context = 16, .width = 64, .encoder_layers = 2, .decoder_layers = 2};
  BeamOptions search;
  examples::RunSettings run = {.training = {.steps = 1600}, .schedule = {.lr = 3e-3}, .batch = 64};
  int64_t rounds = 5, count = 200;

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"source-vocabulary", "vocabulary"}) o.remove(name);
    o.group("Data");
    o("rounds", rounds, "questions of a dialogue").at_least(1);
    o("count", count, "held-out dialogues").at_least(1).decides(Role::files);
    search.list(o);
    run.list(o);
  }
};

/// The answers, each with what was said before.
Dataset<SentencePair> answers(const Dataset<Dialogue>& all, int64_t rounds) {
  return {all.size() * rounds, [all, rounds](int64_t i) {
            const std::vector<std::string> turns = all[i / rounds].turns;
            const auto answer = static_cast<size_t>(2 * (i % rounds) + 1);
            return SentencePair{fmt::format("{}", fmt::join(std::span(turns).first(answer), "\n")),
                                turns[answer]};
          }};
}

void run(const Settings& s, const std::string& title) {
  const Dataset<Dialogue> training = dialogues(Part::training, 20000, s.rounds),
                          held_out = dialogues(Part::held_out, s.count, s.rounds, 1);
  std::string text;
  for (const Dialogue& dialogue : subset(training, 0, 2000))
    text += fmt::format("{}\n", fmt::join(dialogue.turns, "\n"));
  const PipelineTokenizer tokenizer = train_words(text, 1000);
  std::vector<SentencePair> all, remembering, forgetting;
  for (const SentencePair& pair : answers(held_out, s.rounds)) {
    all.push_back(pair);
    const std::string question = pair.source.substr(pair.source.rfind('\n') + 1);
    if (question != "what is my name ?" && question != "what do i like ?") continue;
    remembering.push_back(pair);
    forgetting.push_back({question, pair.target});
  }
  EncoderDecoderOptions options = s.model;
  options.source_vocabulary = options.vocabulary = tokenizer.size();
  manual_seed(s.run.seed);
  EncoderDecoder model(options);
  training::Task task = training::translation(model, tokenizer, answers(training, s.rounds), all,
                                              {.batch = s.run.batch, .seed = s.run.seed});
  training::keep_tokenizer(task, tokenizer);
  const auto right = [&](const std::vector<SentencePair>& pairs, const BeamOptions& search) {
    return pairs.empty() ? NAN : training::percent_exact(model, tokenizer, pairs, search);
  };
  for (const auto* part : {&all, &remembering})
    task.metrics.push_back({.name = part == &all ? "% right" : "% right, if earlier turns decide",
                            .of_split = [=](double) { return right(*part, {.beam = 1}); },
                            .format = "{:.1f}"});
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.mixer);
  training::inspect_attention(model, tokenizer, remembering.empty() ? all[0] : remembering[0], record);
  // The user's turns of a held-out dialogue; the model reads its own answers.
  const std::vector<std::string> turns = held_out[0].turns;
  std::string said;
  for (size_t turn = 0; turn < turns.size(); turn += 2) {
    said += turns[turn];
    const std::string answer = training::translate(model, tokenizer, {said}, s.search)[0];
    record.sample += fmt::format("{}\n    {}\n", turns[turn], answer);
    said += "\n" + answer + "\n";
  }
  record.words.writes_text = true;
  examples::say(stdout,
                "{}{} parameters; {:.1f} % of {} held-out answers are right, {:.1f} % of those that "
                "earlier turns decide, and {:.1f} % of these without the earlier turns\n",
                record.sample, model.parameter_count(), right(all, s.search), all.size(),
                right(remembering, s.search), right(forgetting, s.search));
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("answer_dialogues", "Trains a Transformer to answer in dialogues.",
                                     "  answer_dialogues\n  answer_dialogues --rounds 8 --steps 1500",
                                     Settings(), argc, argv, run);
}
