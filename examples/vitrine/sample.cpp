#include <fmt/format.h>

#include "core/memory/machine.h"
#include "core/parallel.h"
#include "examples/vitrine/command.h"
#include "nn/generation/beam_search.h"
#include "nn/generation/generate.h"
#include "nn/training/checkpoint.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct SampleSettings {
  std::string prompt, stop, device = "cpu", weights = "float32";
  int64_t count = 300;
  SamplingOptions sampling = {.temperature = 0.8, .seed = 1};
  BeamOptions search = {.beam = 0};
  int threads = 0;

  void list(OptionList& o) {
    o.group("Text");
    o("prompt", prompt, "beginning of the text; by default a new line, or the vocabulary's first token");
    o("count", count, "tokens to generate").at_least(0);
    o("stop", stop, "the output ends before this text; empty: it ends after --count tokens");
    sampling.list(o);
    search.list(o);
    o.find("beam")->at_least(0).help = "search with so many beams for the most likely text; 0: sample";
    for (const Option& option : options_of(sampling))
      o.find(option.name)->unless([this] {
        return search.beam == 0 ? "" : "with --beam nothing is sampled";
      });
    for (const char* name : {"length-power", "length-penalty"})
      o.find(name)->unless([this] { return search.beam > 0 ? "" : "it is for --beam"; });
    o.group("Machine");
    o("weights", weights,
      "int8 rounds the weights of linear layers to 8 bits: a quarter of the memory to read, and a slightly other "
      "model")
        .one_of({"float32", "bfloat16", "int8"});
    o("device", device, "cpu, cuda or cuda:1").decides(Role::execution);
    o("threads", threads, "CPU threads; 0: all cores").decides(Role::execution);
  }
};

int run(SampleSettings& s, const Call& call) {
  call.options.check_given();
  if (s.threads != 0) set_threads(s.threads);
  check_memory(8 * static_cast<double>(s.count), fmt::format("--count {}", s.count));
  training::TextModel loaded = training::load_text_model(checkpoint_in(call.words[0]));
  Gpt& model = loaded.model;
  const Tokenizer& tokenizer = *loaded.tokenizer;
  model.to(device_of(s.device));
  if (s.weights == "bfloat16") model.to(DType::bfloat16);
  if (s.weights == "int8") quantize_linear_layers(model);
  const Tokens prompt =
      s.prompt.empty() ? Tokens{tokenizer.find("\n").value_or(0)} : tokenizer.encode(s.prompt);
  const std::vector<int64_t> begin(prompt.begin(), prompt.end());
  Stop stop = {.text_of = [&](int64_t token) { return tokenizer.piece(token, false); }};
  if (!s.stop.empty()) stop.texts = {s.stop};
  TextStream stream(stop.texts);
  const auto show = [&](int64_t token) {
    say(stdout, "{}", stream.add(stop.text_of(token)));
    std::fflush(stdout);
  };
  say(stdout, "{}", s.prompt);
  if (s.search.beam > 0 && s.count > 0) {
    const BeamText best = beam_search(model, {begin}, s.count, s.search, {.stop = stop}).front().front();
    for (size_t i = begin.size(); i < best.tokens.size(); ++i) show(best.tokens[i]);
  } else {
    generate(model, begin, s.count, s.sampling,
             {.stop = stop, .on_token = [&](int64_t, int64_t token) { show(token); }});
  }
  say(stdout, "{}\n", stream.rest());
  return 0;
}

}  // namespace

Command sample_command() {
  return make_command<SampleSettings>(
      "sample", "Generates text with the model of a run, or with a pretrained model.",
      "  vitrine sample runs/laser\n"
      "  vitrine sample gpt2 --prompt 'The quick brown fox' --count 50\n"
      "  vitrine sample runs/laser --prompt 'To be' --count 1000 --temperature 0.5\n"
      "  vitrine sample runs/laser/checkpoint.safetensors --prompt 'To be' --beam 4 --stop .",
      {"checkpoint", "a run folder, a checkpoint of a language model, or the folder of a pretrained model", 1,
       1},
      run);
}

}  // namespace vitrine::examples
