#include <iostream>
#include <iterator>

#include "examples/default_text.h"
#include "examples/vitrine/command.h"
#include "examples/vitrine/training.h"
#include "nn/training/checkpoint.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct TokenizeSettings {
  std::string data, kind = "bpe", tokenizer = "tokenizer.json";
  int64_t vocabulary = 1000;
  bool pieces = false;

  void list(OptionList& o) {
    o.group("Tokenizer");
    o("tokenizer", tokenizer,
      "file of the tokenizer; encode and decode also take a checkpoint or a run folder");
    o("pieces", pieces, "encode: print the text of each token, not its number");
    o.group("Training");
    o("data", data, "UTF-8 text file; by default a snapshot of Vitrine's own source");
    o("kind", kind, "what a token is").one_of({"characters", "bpe", "word_piece", "words"});
    o("vocabulary", vocabulary, "tokens of the others, the 256 bytes or the characters among them")
        .at_least(256)
        .unless([this] { return kind == "characters" ? "the tokenizer characters has none" : ""; });
  }
};

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  const std::string file = checkpoint_in(path);
  return file.ends_with(".safetensors") ? training::load_tokenizer_of(file) : load_tokenizer(file);
}

void train(const TokenizeSettings& s) {
  const std::string text = s.data.empty() ? default_text() : read_text(s.data);
  const auto tokenizer = make_tokenizer(s.kind, s.vocabulary, text, text);
  save_tokenizer(s.tokenizer, *tokenizer);
  const int64_t count = tokenizer->encode(text).size();
  say(stdout, "{}: {}, {} tokens; {:.3f} tokens per byte of the text\n", s.tokenizer, tokenizer->kind(),
      tokenizer->size(), static_cast<double>(count) / static_cast<double>(text.size()));
}

/// The words after the first, or standard input if there are none.
std::string given_text(const Call& call) {
  if (call.words.size() == 1) return {std::istreambuf_iterator<char>(std::cin), {}};
  return fmt::format("{}", fmt::join(call.words.begin() + 1, call.words.end(), " "));
}

void encode(const TokenizeSettings& s, const Call& call) {
  const auto tokenizer = read_tokenizer(s.tokenizer);
  const char* before = "";
  for (const int32_t id : tokenizer->encode(given_text(call))) {
    say(stdout, "{}{}", before, s.pieces ? tokenizer->token(id) : std::to_string(id));
    before = s.pieces ? "|" : " ";
  }
  say(stdout, "\n");
}

void decode(const TokenizeSettings& s, const Call& call) {
  std::vector<int64_t> ids;
  OptionList list;
  list("ids", ids, "");
  std::istringstream words(given_text(call));
  const std::vector<std::string> numbers{std::istream_iterator<std::string>(words), {}};
  if (!numbers.empty()) list.find("ids")->read(numbers, "decode: a token");
  say(stdout, "{}\n", read_tokenizer(s.tokenizer)->decode(Tokens(ids)));
}

int run(TokenizeSettings& s, const Call& call) {
  call.options.check_given();
  const std::string& what = call.words[0];
  if (what == "train" && call.words.size() == 1) return train(s), 0;
  if (what == "encode") return encode(s, call), 0;
  if (what == "decode") return decode(s, call), 0;
  say(stderr, "{}: {}{}, wanted train, encode TEXT or decode NUMBERS\n", call.program, what,
      call.words.size() > 1 ? " with further words" : "");
  return 2;
}

}  // namespace

Command tokenize_command() {
  return make_command<TokenizeSettings>(
      "tokenize", "Trains a tokenizer, and encodes and decodes text with one.",
      "  vitrine tokenize train --data shakespeare.txt --vocabulary 5000 --tokenizer bpe.json\n"
      "  vitrine tokenize encode 'To be, or not to be' --tokenizer bpe.json --pieces\n"
      "  vitrine tokenize decode 84 111 32 98 101 --tokenizer runs/standard",
      {"what",
       "train, encode or decode; and the text or the numbers, or standard input",
       1,
       100000,
       {"train", "encode", "decode"}},
      run);
}

}  // namespace vitrine::examples
