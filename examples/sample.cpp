// Generates text with the model of a checkpoint, which contains its options and vocabulary: the
// command `vitrine sample` as a program of its own.
//
//   sample reports/standard.safetensors
//   sample reports/standard.safetensors --prompt "To be" --count 1000 --temperature 0.5
//   sample reports/standard.safetensors --prompt "To be" --beam 4 --stop "."
#include "examples/vitrine/command.h"

int main(int argc, char** argv) { return vitrine::examples::sample_command().run("sample", argc, argv); }
