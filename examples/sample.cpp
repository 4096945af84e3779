// Generates text with the model of a checkpoint, which contains its options and vocabulary.
//
//   sample reports/standard.safetensors
//   sample reports/standard.safetensors --prompt "To be" --count 1000 --temperature 0.5
#include <fmt/format.h>

#include "core/memory/machine.h"
#include "core/parallel.h"
#include "examples/command_line.h"
#include "nn/generation/generate.h"
#include "nn/training/checkpoint.h"

using namespace vitrine;
using namespace vitrine::nn;
using examples::say;

namespace {

const char* const kExamples =
    "  sample reports/standard.safetensors\n"
    "  sample reports/standard.safetensors --prompt 'To be' --count 1000 --temperature 0.5";

struct Settings {
  std::string prompt, device = "cpu", weights = "float32";
  int64_t count = 300;
  SamplingOptions sampling = {.temperature = 0.8, .seed = 1};
  int threads = 0;

  void list(OptionList& o) {
    o.group("Text");
    o("prompt", prompt, "beginning of the text; by default a new line, or the vocabulary's first token");
    o("count", count, "tokens to generate").at_least(0);
    sampling.list(o);
    o.group("Machine");
    o("weights", weights,
      "int8 rounds the weights of linear layers to 8 bits: a quarter of the memory to read, and a slightly other "
      "model")
        .one_of({"float32", "bfloat16", "int8"});
    o("device", device, "cpu, cuda or cuda:1").decides(Role::execution);
    o("threads", threads, "CPU threads; 0: all cores").decides(Role::execution);
  }
};

void run(const std::string& checkpoint, const Settings& s) {
  if (s.threads != 0) set_threads(s.threads);
  check_memory(8 * static_cast<double>(s.count), fmt::format("--count {}", s.count));
  auto [model, tokenizer] = training::load_text_model(checkpoint);
  model.to(device_of(s.device));
  if (s.weights == "bfloat16") model.to(DType::bfloat16);
  if (s.weights == "int8") quantize_linear_layers(model);
  const Tokens prompt =
      s.prompt.empty() ? Tokens{tokenizer->find("\n").value_or(0)} : tokenizer->encode(s.prompt);
  const Tokens all = generate(model, {prompt.begin(), prompt.end()}, s.count, s.sampling);
  say(stdout, "{}{}\n", s.prompt, tokenizer->decode(all.slice(prompt.size(), all.size())));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("sample", [&] {
    Settings s;
    std::string checkpoint;
    OptionList options = options_of(s);
    examples::CommandLine line("sample", "Generates text with the model of a checkpoint of train_gpt.",
                               kExamples);
    line.argument("checkpoint", checkpoint, "a file that train_gpt has saved");
    if (const auto code = line.parse(options, argc, argv)) return *code;
    options.check_given();
    run(checkpoint, s);
    return 0;
  });
}
