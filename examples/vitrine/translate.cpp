#include <iostream>

#include "core/parallel.h"
#include "examples/vitrine/command.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/translation.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct TranslateSettings {
  BeamOptions search;
  std::string device = "cpu";
  int threads = 0;

  void list(OptionList& o) {
    o.group("Text");
    search.list(o);
    o.group("Machine");
    o("device", device, "cpu, cuda or cuda:1").decides(Role::execution);
    o("threads", threads, "CPU threads; 0: all cores").decides(Role::execution);
  }
};

template <class Model>
void translate_words(const std::string& checkpoint, const TranslateSettings& s, const Call& call) {
  auto loaded = training::load_text_model<Model>(checkpoint);
  loaded.model.to(device_of(s.device));
  const auto show = [&](const std::string& text) {
    say(stdout, "{}\n", training::translate(loaded.model, *loaded.tokenizer, {text}, s.search)[0]);
  };
  for (size_t i = 1; i < call.words.size(); ++i) show(call.words[i]);
  if (call.words.size() == 1)
    for (std::string line; std::getline(std::cin, line);) show(line);
}

int run(TranslateSettings& s, const Call& call) {
  if (s.threads != 0) set_threads(s.threads);
  const std::string checkpoint = checkpoint_in(call.words[0]);
  const bool recurrent = training::kind_of_model(checkpoint) == "recurrent_encoder_decoder";
  (recurrent ? translate_words<RecurrentEncoderDecoder> : translate_words<EncoderDecoder>)(checkpoint, s,
                                                                                           call);
  return 0;
}

}  // namespace

Command translate_command() {
  return make_command<TranslateSettings>(
      "translate", "Translates texts with an encoder-decoder model, by beam search.",
      "  build/examples/translate                           trains such a model\n"
      "  vitrine translate dates.safetensors 'march 3, 2021'\n"
      "  vitrine translate dates.safetensors --beam 8 < lines.txt",
      {"checkpoint", "a checkpoint, and the texts; without texts, the lines of standard input", 1, 1000},
      run);
}

}  // namespace vitrine::examples
