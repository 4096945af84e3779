// Trains a Conformer with CTC to recognize digits in sound.
//
//   recognize_digits                     one to four digits, each played as three tones
//   recognize_digits --data FOLDER       three to six spoken digits, from recordings in a folder
//
// Where the digits are and how long they last is not given: CTC sums over all places. The model
// reads log-mel features of 10 ms. The report shows them above the digits that it hears in them.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "examples/model_task.h"
#include "examples/recognize_digits_data.h"
#include "nn/generation/ctc.h"
#include "nn/metrics/error_rate.h"
#include "nn/models/conformer.h"
#include "nn/models/stack_settings.h"
#include "ops/ctc.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;
using examples::Sound;

namespace {

struct Settings {
  ConformerOptions model = {.features = LogMelOptions().mels, .layers = 2, .mixer = {.width = 64}};
  std::string data;
  examples::RunSettings run = {.training = {.steps = 400}, .schedule = {.lr = 3e-3}, .batch = 16};

  void list(OptionList& o) {
    o.group("Model");
    o("width", model.mixer.width, "number of channels").at_least(1);
    o("heads", model.mixer.heads, "number of heads").at_least(1);
    o("layers", model.layers, "number of blocks").at_least(1);
    o("kernel", model.kernel, "frames that a convolution sees, an odd number").at_least(1);
    o("mixer", model.mixer.name, "one base and parts, joined by +:\n" + mixer_help());
    o("dropout", model.dropout, "dropout probability").at_least(0).below(1);
    list_checkpoint_blocks(model.recompute_blocks, o);
    o.group("Data");
    o("data", data, "folder with recordings DIGIT_SPEAKER_INDEX.wav; by default tones are generated")
        .decides(Role::files);
    run.list(o);
  }
};

/// A grid [rows, frames] as a picture.
report::ShadedTable picture(const std::string& title, const Tensor& grid, const std::string& row_title,
                            std::vector<std::string> rows, const std::string& explanation) {
  report::ShadedTable table = examples::picture(title, grid, explanation);
  table.row_title = row_title, table.rows = std::move(rows), table.column_title = "second";
  for (size_t frame = 0; frame < table.columns.size(); ++frame)
    table.columns[frame] = fmt::format("{:.2f}", 0.04 * static_cast<double>(frame));
  return table;
}

/// The log-mel features of a sound, and the probabilities of digits at every fourth frame.
void show_sound(const Conformer& model, const Sound& sound, report::RunRecord& record) {
  const Batch one = examples::batch_of({&sound, 1});
  const Conformer::Result heard = model.forward(one.tensors[0], one.tensors[1]);
  const std::string played = examples::texts(one.tensors[2], one.tensors[3])[0],
                    found = examples::texts(ctc_greedy(heard.logits))[0];
  const int64_t frames = heard.logits.size(1), mels = one.tensors[0].size(2);
  std::vector<std::string> bands, labels = {"–"};
  for (int64_t i = mels; i > 0; --i) bands.push_back(std::to_string(i));
  for (int64_t digit = 0; digit < 10; ++digit) labels.push_back(std::to_string(digit));
  const Tensor mel = transpose(select(one.tensors[0], 0, 0), 0, 1);
  // Every fourth frame, with the high tones above
  const Tensor shown = flip(slice(mel, 1, 0, std::nullopt, 4), {0});
  record.tables.push_back(picture("Sound: " + played, shown, "band", bands,
                                  "Log-mel features, every fourth frame of 10 ms. High tones are above."));
  record.tables.push_back(picture(
      "Heard: " + found, transpose(select(softmax(heard.logits, -1), 0, 0), 0, 1), "label", labels,
      fmt::format("The probabilities of the blank (–) and of each digit in the same {} places.", frames)));
}

void run(const Settings& s, const std::string& title) {
  const Split<Sound> data = examples::sounds(s.data);
  manual_seed(s.run.seed);
  Conformer model(s.model);
  training::Task task = examples::make_task<Sound>(model, data, examples::batch_of, s.run);
  task.loss = [&](const auto& x) {
    const Conformer::Result heard = model.forward(x[0], x[1]);
    return ctc_loss(heard.logits, x[2], {.input_lengths = heard.lengths, .target_lengths = x[3]});
  };
  const auto errors = [&](const auto& x) {
    const Conformer::Result heard = model.forward(x[0], x[1]);
    const ErrorRate rate = word_error_rate(examples::texts(ctc_greedy(heard.logits, heard.lengths)),
                                           examples::texts(x[2], x[3]));
    return WeightedSum{static_cast<double>(rate.edits), static_cast<double>(rate.length)};
  };
  task.metrics = {{.name = "word error rate", .more_is_better = false, .of_batch = errors}};
  task.words = {.item = "sound", .loss_unit = "nats per digit"};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.mixer.name);
  const ModeScope evaluation(model, false);
  for (int64_t i = 0; i < 3; ++i) show_sound(model, data.held_out[i], record);
  examples::say(stdout, "{} parameters; {:.1f} % of the digits in {} held-out sounds are wrong\n",
                model.parameter_count(), 100 * record.metrics[0].last(), data.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("recognize_digits", "Trains a Conformer to recognize digits in sound.",
                                     "  recognize_digits\n  recognize_digits --data FOLDER --steps 4000",
                                     Settings(), argc, argv, run);
}
