// Trains an encoder-decoder Transformer to write dates as numbers: "3 March 2021" → "2021-03-03".
//
//   translate_dates [STEPS]
//
// The dates from 1900 to 2099 are written in eight forms. Characters are the tokens. No form of one
// date in five is in the training data. At the end, beam search translates such dates.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "nn/generation/beam_search.h"
#include "nn/models/encoder_decoder.h"
#include "nn/text/characters.h"
#include "nn/training/trainer.h"
#include "ops/loss.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kLongest = 28, kTarget = 11;  // characters; a target has ten, and an end
const CharacterVocabulary kCharacters("\n ,-./0123456789ADFJMNOSTWabcdeghilmnoprstuvy");

/// A date in words, and in numbers.
struct Example {
  std::string source, target;
};

/// Random dates in random forms, all of them held out from training or none.
std::vector<Example> examples(bool held_out, size_t count, uint64_t seed) {
  using fmt::arg;
  static const std::vector<const char*> kForms = {
      "{d} {month} {y}",   "{month} {d}, {y}", "{weekday}, {d} {month} {y}", "{d}.{m}.{y}",
      "{d:02}.{m:02}.{y}", "{y}/{m}/{d}",      "{short} {d}, {y}",           "{d} {short} {y}"};
  Generator generator(seed);
  std::vector<Example> all;
  while (all.size() < count) {
    const int64_t number = generator.next_below(73049) - 25567;  // of days since 1970
    if ((number % 5 == 0) != held_out) continue;
    const std::chrono::sys_days day{std::chrono::days(number)};
    const std::chrono::year_month_day date(day);
    const auto* const form = kForms[static_cast<size_t>(generator.next_below(std::ssize(kForms)))];
    all.push_back(
        {fmt::format(fmt::runtime(form), arg("d", static_cast<unsigned>(date.day())),
                     arg("m", static_cast<unsigned>(date.month())), arg("y", static_cast<int>(date.year())),
                     arg("month", fmt::format("{:%B}", day)), arg("short", fmt::format("{:%b}", day)),
                     arg("weekday", fmt::format("{:%A}", day))),
         fmt::format("{:%Y-%m-%d}", day)});
  }
  return all;
}

/// Source tokens [N, S], their lengths, and the target tokens from the beginning on and up to the
/// end. The beginning and the end are the token 0, the line break.
Batch batch_of(const std::vector<Example>& all) {
  std::vector<int64_t> source, lengths, given, wanted;
  for (const Example& e : all) {
    const Tokens from = kCharacters.encode(e.source), to = kCharacters.encode("\n" + e.target + "\n");
    source.insert(source.end(), from.begin(), from.end());
    source.resize(source.size() + static_cast<size_t>(kLongest - from.size()));
    lengths.push_back(from.size());
    given.insert(given.end(), to.begin(), to.end() - 1);
    wanted.insert(wanted.end(), to.begin() + 1, to.end());
  }
  const int64_t count = std::ssize(all);
  return {{index_tensor(source, {count, kLongest}), index_tensor(lengths, {count}),
           index_tensor(given, {count, kTarget}), index_tensor(wanted, {count, kTarget})},
          count * kTarget};
}

/// Translates by beam search, prints the first, and counts those that are right.
int64_t translate(EncoderDecoder& model, const std::vector<Example>& all) {
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  const Batch batch = batch_of(all);
  const std::vector<std::vector<int64_t>> begin(all.size(), {0});
  const auto found = beam_search(model, begin, kTarget, {.beam = 3},
                                 {{.tokens = {0}}, model.encode(batch.tensors[0], batch.tensors[1])});
  int64_t right = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string text = kCharacters.decode(found[i][0].tokens);
    right += text == "\n" + all[i].target + "\n" ? 1 : 0;
    if (i < 5) fmt::print("{:<28} → {}", all[i].source, text.substr(1));
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 2, "usage: translate_dates [STEPS]");
  const int64_t steps = argc == 2 ? std::stoll(argv[1]) : 1200;
  EncoderDecoder model({.source_vocabulary = kCharacters.size(),
                        .vocabulary = kCharacters.size(),
                        .source_context = kLongest,
                        .context = kTarget,
                        .width = 64,
                        .encoder_layers = 2,
                        .decoder_layers = 2});
  const training::Task task{
      .model = model,
      .batch = [](int64_t i) { return batch_of(examples(false, 64, static_cast<uint64_t>(i))); },
      .validation = [] { return std::vector{batch_of(examples(true, 256, 1))}; },
      .loss = [&](const auto& x) { return cross_entropy(model.forward(x[0], x[1], x[2]), x[3]); }};
  training::Trainer trainer(task, optim::warmup_cosine(3e-3, steps / 10, steps), {.steps = steps});
  trainer.run();
  const int64_t right = translate(model, examples(true, 1000, 2));
  fmt::print("{} parameters; {} of 1000 held-out dates are right\n", model.parameter_count(), right);
  check(std::fflush(stdout) == 0, "translate_dates: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
