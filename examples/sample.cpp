// Generates text with the model of a checkpoint, which contains its options and vocabulary, or with
// a pretrained model: a folder with config.json, model.safetensors and tokenizer.json. It is the
// command `vitrine sample` as a program of its own.
//
//   sample gpt2 --prompt "The quick brown fox" --count 50
//   sample reports/standard.safetensors
//   sample reports/standard.safetensors --prompt "To be" --count 1000 --temperature 0.5
//   sample reports/standard.safetensors --prompt "To be" --beam 4 --stop "."
#include "examples/vitrine/command.h"

int main(int argc, char** argv) { return vitrine::examples::sample_command().run("sample", argc, argv); }
