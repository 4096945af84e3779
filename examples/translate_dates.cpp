// Trains an encoder-decoder Transformer to write dates as numbers: "march 3, 2021" → "2021-03-03".
//
//   translate_dates [STEPS [CHECKPOINT]]
//   vitrine translate CHECKPOINT 'march 3, 2021'
//
// Characters are the tokens. No form of one date in eight is in the training data
// (nn/data/synthetic/dates.h). At the end, beam search translates such dates.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "nn/data/synthetic/dates.h"
#include "nn/models/encoder_decoder.h"
#include "nn/text/characters.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/translation.h"
#include "nn/training/trainer.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::dates, synthetic::Part, synthetic::WrittenDate;

namespace {

constexpr int64_t kLongest = 30, kTarget = 11;  // characters; a target has ten, and an end
const CharacterVocabulary kCharacters("\n ,-.0123456789abcdefghijklmnopqrstuvwxyz");

Dataset<SentencePair> pairs(Part part, int64_t size, uint64_t seed) {
  return mapped(dates(part, size, seed), [](const WrittenDate& d) { return SentencePair{d.written, d.iso}; });
}

/// Translates by beam search, prints the first, and counts those that are right.
int64_t translate(EncoderDecoder& model, const Dataset<SentencePair>& held_out) {
  std::vector<std::string> written, wanted;
  for (const SentencePair& pair : held_out) written.push_back(pair.source), wanted.push_back(pair.target);
  const auto found = training::translate(model, kCharacters, written, {.beam = 3});
  for (size_t i = 0; i < 5; ++i) fmt::print("{:<30} → {}\n", written[i], found[i]);
  int64_t right = 0;
  for (size_t i = 0; i < found.size(); ++i) right += found[i] == wanted[i] ? 1 : 0;
  return right;
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 3, "usage: translate_dates [STEPS [CHECKPOINT]]");
  const int64_t steps = argc >= 2 ? std::stoll(argv[1]) : 1200;
  EncoderDecoder model({.source_vocabulary = kCharacters.size(),
                        .vocabulary = kCharacters.size(),
                        .source_context = kLongest,
                        .context = kTarget,
                        .width = 64,
                        .encoder_layers = 2,
                        .decoder_layers = 2});
  training::Task task = training::translation(model, kCharacters, pairs(Part::training, 50000, 0),
                                              pairs(Part::held_out, 256, 1), {.batch = 64});
  training::keep_tokenizer(task, kCharacters);
  training::Trainer trainer(task, optim::warmup_cosine(3e-3, steps / 10, steps),
                            {.steps = steps, .checkpoint = argc == 3 ? argv[2] : ""});
  trainer.run();
  const int64_t right = translate(model, pairs(Part::held_out, 1000, 2));
  fmt::print("{} parameters; {} of 1000 held-out dates are right\n", model.parameter_count(), right);
  check(std::fflush(stdout) == 0, "translate_dates: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
