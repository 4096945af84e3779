// Trains an encoder-decoder Transformer to write dates as numbers: "march 3, 2021" → "2021-03-03".
//
//   translate_dates [STEPS [CHECKPOINT]]
//   vitrine translate CHECKPOINT 'march 3, 2021'
//
// Characters are the tokens. No form of one date in eight is in the training data
// (nn/data/synthetic/dates.h). At the end, beam search translates such dates.
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "nn/data/loader.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/dates.h"
#include "nn/generation/beam_search.h"
#include "nn/models/encoder_decoder.h"
#include "nn/text/characters.h"
#include "nn/training/checkpoint.h"
#include "nn/training/trainer.h"
#include "ops/loss.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::dates, synthetic::Part, synthetic::WrittenDate;

namespace {

constexpr int64_t kLongest = 30, kTarget = 11;  // characters; a target has ten, and an end
const CharacterVocabulary kCharacters("\n ,-.0123456789abcdefghijklmnopqrstuvwxyz");

/// Source tokens [N, S], their lengths, and the target tokens from the beginning on and up to the
/// end. The beginning and the end are the token 0, the line break.
Batch batch_of(std::span<const WrittenDate> all) {
  std::vector<std::vector<int64_t>> sources;
  std::vector<int64_t> given, wanted;
  for (const WrittenDate& date : all) {
    const Tokens from = kCharacters.encode(date.written), to = kCharacters.encode("\n" + date.iso + "\n");
    sources.emplace_back(from.begin(), from.end());
    given.insert(given.end(), to.begin(), to.end() - 1);
    wanted.insert(wanted.end(), to.begin() + 1, to.end());
  }
  const Padded source = pad_ids(sources, 0);
  const int64_t count = std::ssize(all);
  return {{source.values, source.lengths, index_tensor(given, {count, kTarget}),
           index_tensor(wanted, {count, kTarget})},
          count * kTarget};
}

/// Translates by beam search, prints the first, and counts those that are right.
int64_t translate(EncoderDecoder& model, const Dataset<WrittenDate>& held_out) {
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  std::vector<WrittenDate> all;
  for (const WrittenDate& date : held_out) all.push_back(date);
  const Batch batch = batch_of(all);
  const std::vector<std::vector<int64_t>> begin(all.size(), {0});
  const auto found = beam_search(model, begin, kTarget, {.beam = 3},
                                 {{.tokens = {0}}, model.encode(batch.tensors[0], batch.tensors[1])});
  int64_t right = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string text = kCharacters.decode(found[i][0].tokens);
    right += text == "\n" + all[i].iso + "\n" ? 1 : 0;
    if (i < 5) fmt::print("{:<30} → {}", all[i].written, text.substr(1));
  }
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
  Loader loader(dates(Part::training, 50000), shuffled_batches(50000, 64, /*seed=*/0), batch_of);
  const Loader validation(dates(Part::held_out, 256, /*seed=*/1), ordered_batches(256, 256), batch_of);
  training::Task task{
      .model = model,
      .batch = [&](int64_t index) { return loader.batch(index); },
      .validation = [&] { return validation.whole(); },
      .loss = [&](const auto& x) { return cross_entropy(model.forward(x[0], x[1], x[2]), x[3]); }};
  keep_model(task, model);
  keep_tokenizer(task, kCharacters);
  training::Trainer trainer(task, optim::warmup_cosine(3e-3, steps / 10, steps),
                            {.steps = steps, .checkpoint = argc == 3 ? argv[2] : ""});
  trainer.run();
  const int64_t right = translate(model, dates(Part::held_out, 1000, /*seed=*/2));
  fmt::print("{} parameters; {} of 1000 held-out dates are right\n", model.parameter_count(), right);
  check(std::fflush(stdout) == 0, "translate_dates: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
