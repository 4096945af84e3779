#include <iostream>

#include "core/parallel.h"
#include "core/tape.h"
#include "examples/vitrine/command.h"
#include "nn/data/padding.h"
#include "nn/generation/beam_search.h"
#include "nn/training/checkpoint.h"

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

/// A translation begins and ends with the token of the line break, as training had it.
std::string translate(EncoderDecoder& model, const Tokenizer& tokenizer, const std::string& text,
                      const BeamOptions& search) {
  const std::optional<int64_t> end = tokenizer.find("\n");
  check(end.has_value(), "translate: the vocabulary of the model has no line break, which ends a text");
  const Tokens ids = tokenizer.encode(text);
  check(ids.size() > 0, "translate: a text is empty");
  const std::vector<std::vector<int64_t>> texts = {{ids.begin(), ids.end()}};
  const Padded source = pad_ids(texts, *end);
  const Device device = model.parameters().front().value().device();
  const Memory memory = model.encode(copy_to(source.values, device), copy_to(source.lengths, device));
  const BeamText best =
      beam_search(model, {{*end}}, model.context(), search, {{.tokens = {*end}}, memory}).front().front();
  std::string written;
  for (size_t i = 1; i < best.tokens.size(); ++i)
    if (best.tokens[i] != *end) written += tokenizer.piece(best.tokens[i], i == 1);
  return written;
}

int run(TranslateSettings& s, const Call& call) {
  if (s.threads != 0) set_threads(s.threads);
  const Tape::Pause pause;
  auto loaded = training::load_text_model<EncoderDecoder>(checkpoint_in(call.words[0]));
  loaded.model.to(device_of(s.device));
  const auto show = [&](const std::string& text) {
    say(stdout, "{}\n", translate(loaded.model, *loaded.tokenizer, text, s.search));
  };
  for (size_t i = 1; i < call.words.size(); ++i) show(call.words[i]);
  if (call.words.size() == 1)
    for (std::string line; std::getline(std::cin, line);) show(line);
  return 0;
}

}  // namespace

Command translate_command() {
  return make_command<TranslateSettings>(
      "translate", "Translates texts with an encoder-decoder model, by beam search.",
      "  translate_dates 1200 dates.safetensors              trains such a model\n"
      "  vitrine translate dates.safetensors 'march 3, 2021'\n"
      "  vitrine translate dates.safetensors --beam 8 < lines.txt",
      {"checkpoint", "a checkpoint, and the texts; without texts, the lines of standard input", 1, 1000},
      run);
}

}  // namespace vitrine::examples
