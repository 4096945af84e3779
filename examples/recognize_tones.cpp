// Trains a Conformer with CTC to recognize digits that are played as tones.
//
//   recognize_tones [STEPS]
//
// A sound has one to four digits, of unknown places and durations. CTC sums over all of them.
// Log-mel features of 10 ms are what the model hears.
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "nn/data/loader.h"
#include "nn/data/log_mel.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/tones.h"
#include "nn/generation/ctc.h"
#include "nn/metrics/error_rate.h"
#include "nn/models/conformer.h"
#include "nn/training/trainer.h"
#include "ops/ctc.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part, synthetic::tones, synthetic::Tones;

namespace {

/// Frames [B, T, mels] and their numbers, labels [B, L] and their numbers. The label of digit d is
/// d + 1, and 0 is the blank.
Batch batch_of(std::span<const Tones> all) {
  static const LogMel log_mel({});
  std::vector<Tensor> frames;
  std::vector<std::vector<int64_t>> labels;
  for (const Tones& sound : all) {
    frames.push_back(log_mel(sound.samples));
    labels.emplace_back();
    for (const int64_t digit : sound.digits) labels.back().push_back(digit + 1);
  }
  const Padded x = pad_frames(frames), y = pad_ids(labels, 0);
  return {{x.values, x.lengths, y.values, y.lengths}, std::ssize(all)};
}

/// Labels [B, L] as a text for each row: "3 1 4". Row b has lengths[b] labels, or those before −1.
std::vector<std::string> texts(const Tensor& labels, const Tensor& lengths = {}) {
  const auto all = labels.values();
  const auto counts = lengths.defined() ? lengths.values() : std::vector<double>();
  const auto width = static_cast<size_t>(labels.size(1));
  std::vector<std::string> result;
  for (size_t b = 0; b < static_cast<size_t>(labels.size(0)); ++b) {
    result.emplace_back();
    for (size_t i = 0; i < width && (counts.empty() || static_cast<double>(i) < counts[b]); ++i)
      if (all[b * width + i] > 0) result.back() += fmt::format("{} ", all[b * width + i] - 1);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 2, "usage: recognize_tones [STEPS]");
  const int64_t steps = argc == 2 ? std::stoll(argv[1]) : 400;
  Conformer model({.features = LogMelOptions().mels,
                   .classes = 11,
                   .layers = 2,
                   .mixer = {.width = 64, .name = "rotary"}});
  Loader loader(tones(Part::training, 8000, {.most = 4}), shuffled_batches(8000, 16, /*seed=*/0), batch_of,
                2);
  const std::vector<Batch> held_out =
      Loader(tones(Part::held_out, 300, {.most = 4}, /*seed=*/1), ordered_batches(300, 50), batch_of).whole();
  const auto errors = [&](const auto& x) {
    const Conformer::Result heard = model.forward(x[0], x[1]);
    const ErrorRate rate = word_error_rate(texts(ctc_greedy(heard.logits, heard.lengths)), texts(x[2], x[3]));
    return WeightedSum{static_cast<double>(rate.edits), static_cast<double>(rate.length)};
  };
  const training::Task task{
      .model = model,
      .batch = [&](int64_t index) { return loader.batch(index); },
      .validation = [&] { return held_out; },
      .loss =
          [&](const auto& x) {
            const Conformer::Result heard = model.forward(x[0], x[1]);
            return ctc_loss(heard.logits, x[2], {.input_lengths = heard.lengths, .target_lengths = x[3]});
          },
      .metrics = {{.name = "word error rate", .more_is_better = false, .of_batch = errors}}};
  training::Trainer trainer(task, optim::warmup_cosine(3e-3, steps / 10, steps), {.steps = steps});
  trainer.run();
  fmt::print("{} parameters; {:.1f} % of the digits in {} held-out sounds are wrong\n",
             model.parameter_count(), 100 * trainer.record().metrics[0].last(), 300);
  check(std::fflush(stdout) == 0, "recognize_tones: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
