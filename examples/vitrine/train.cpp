#include "examples/vitrine/command.h"
#include "examples/vitrine/training.h"
#include "nn/training/interrupt.h"

namespace vitrine::examples {
namespace {

struct TrainSettings : Settings {
  TrainSettings() { out = "runs"; }
};

int run(TrainSettings& s, const Call& call) {
  nn::training::catch_signals();
  if (!s.resume.empty()) s.resume = checkpoint_in(s.resume);
  return train_runs(call.program, s, call.options, nn::training::Layout::folders) ? 0 : 1;
}

}  // namespace

Command train_command() {
  return make_command<TrainSettings>(
      "train", "Trains language models on a text; each run has a folder of its own.",
      "  vitrine train --data shakespeare.txt --mixer laser+qk_norm --steps 2000\n"
      "  vitrine train --compare standard,laser --seeds 1,2,3\n"
      "  vitrine train --config runs/laser/config.ini          repeats that run, bit for bit\n"
      "  vitrine train --config runs/laser/config.ini --resume runs/laser --steps 4000 --new-schedule",
      {}, run);
}

}  // namespace vitrine::examples
