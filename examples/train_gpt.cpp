// Trains a GPT on any UTF-8 text, with attention and a tokenizer of your choice, and writes a
// report. `vitrine train` does the same, with a folder for each run.
//
//   train_gpt --compare standard,laser
//   train_gpt --data shakespeare.txt --mixer laser+qk_norm --steps 2000
#include "examples/command_line.h"
#include "examples/vitrine/training.h"
#include "nn/training/interrupt.h"

using namespace vitrine;

namespace {

const char* const kExamples =
    "  train_gpt --compare standard,laser\n"
    "  train_gpt --compare optimizer=adamw,lion --compare lr=0.001,0.0003 --seeds 1,2,3\n"
    "  train_gpt --data shakespeare.txt --mixer laser+qk_norm --steps 2000 --out runs\n"
    "  train_gpt --config runs/laser+qk_norm.ini              repeats that run, bit for bit\n"
    "  train_gpt --config runs/laser+qk_norm.ini --resume runs/laser+qk_norm.safetensors --steps 4000 --new-schedule\n"
    "  sample runs/laser+qk_norm.safetensors                  generates text with its model";

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("train_gpt", [&] {
    examples::Settings s;
    nn::OptionList options = nn::options_of(s);
    examples::CommandLine line("train_gpt", "Trains a GPT on a text and writes a report.", kExamples);
    if (const auto code = line.parse(options, argc, argv)) return *code;
    nn::training::catch_signals();
    return examples::train_runs("train_gpt", s, options, nn::training::Layout::files) ? 0 : 1;
  });
}
