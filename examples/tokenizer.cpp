// Byte pair encoding and word pieces: how a sentence is split, and why a vocabulary that has
// learned from too little text is too good to be true on this text.
//
//   tokenizer
//   tokenizer --kind word_piece
//   tokenizer --data shakespeare.txt --vocabulary 5000 --sentence "To be, or not to be"
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "examples/command_line.h"
#include "examples/default_text.h"
#include "nn/text/characters.h"
#include "nn/text/train_bpe.h"
#include "nn/text/train_word_piece.h"

using namespace vitrine;
using namespace vitrine::nn;
using examples::say;

namespace {

const char* const kExamples =
    "  tokenizer\n"
    "  tokenizer --kind word_piece\n"
    "  tokenizer --data shakespeare.txt --vocabulary 5000 --sentence 'To be, or not to be'";

struct Settings {
  std::string data, kind = "bpe", sentence = "The tokenizer splits unfamiliar words, naïvely.";
  int64_t vocabulary = 2000;

  void list(OptionList& o) {
    o.group("Text");
    o("data", data, "UTF-8 text file; by default a snapshot of Vitrine's own source");
    o("kind", kind, "what a token is").one_of({"bpe", "word_piece"});
    o("vocabulary", vocabulary, "tokens, the 256 bytes or the characters among them").at_least(256);
    o("sentence", sentence, "the sentence that is split step by step");
  }
};

PipelineTokenizer trained(const Settings& s, std::string_view text) {
  if (s.kind == "word_piece") return train_word_piece(text, {.vocabulary = s.vocabulary});
  return train_bpe(text, {.vocabulary = s.vocabulary});
}

/// The tokens with | between them. A blank is shown as ␣, and a part of a character by its bytes.
std::string shown(const Bpe& bpe, const std::vector<int32_t>& ids) {
  std::string line;
  for (const int32_t id : ids) {
    if (!line.empty()) line += '|';
    for (const std::string& c : split_characters(bpe.vocabulary()[id])) {
      const auto byte = static_cast<unsigned char>(c[0]);
      const bool is_printable = c.size() > 1 || (byte > ' ' && byte < 0x7F);
      line += c == " " ? "␣" : is_printable ? c : fmt::format("<{:02X}>", byte);
    }
  }
  return line;
}

void show_merges(const PipelineTokenizer& tokenizer, const std::string& sentence) {
  const auto& bpe = dynamic_cast<const Bpe&>(*tokenizer.stages().model);
  say(stdout, "How \"{}\" is split: each word begins as its bytes, and the earliest merge comes first.\n\n",
      sentence);
  tokenizer.stages().splitter.split(sentence, [&](std::string_view word) {
    const char* arrow = "  ";
    for (const auto& ids : bpe.merge_steps(word)) {
      say(stdout, "{} {}\n", arrow, shown(bpe, ids));
      arrow = "   →";
    }
  });
}

void show_pieces(const PipelineTokenizer& tokenizer, const std::string& sentence) {
  say(stdout, "How \"{}\" is split: each word into the longest pieces, from left to right.\n\n", sentence);
  const Pipeline& stages = tokenizer.stages();
  stages.splitter.split(stages.normalizer(sentence), [&](std::string_view word) {
    std::vector<int32_t> ids;
    stages.model->append_ids(word, ids);
    std::string line;
    for (const int32_t id : ids) line += (line.empty() ? "" : "|") + tokenizer.token(id);
    say(stdout, "   {} → {}\n", word, line);
  });
}

void show_ids(const Tokenizer& tokenizer, const std::string& sentence) {
  const Tokens ids = tokenizer.encode(sentence);
  say(stdout, "\n{} bytes, {} tokens: {}\n\n", sentence.size(), ids.size(), fmt::join(ids, " "));
}

double tokens_per_byte(const Tokenizer& tokenizer, std::string_view text) {
  return static_cast<double>(tokenizer.encode(text).size()) / static_cast<double>(text.size());
}

/// Trains on growing pieces of the text. The held-out text is the last tenth, which no tokenizer
/// has seen.
void show_overfitting(const Settings& s, std::string_view text) {
  const size_t cut = position_of_character(text, count_characters(text) / 10 * 9);
  const std::string_view training = text.substr(0, cut), held_out = text.substr(cut);
  say(stdout, "Tokens per byte of vocabularies that have learned from more and more text:\n\n");
  say(stdout, "{:>12}{:>12}{:>16}{:>16}{:>8}\n", "bytes", "tokens", "training text", "held-out text",
      "ratio");
  for (size_t size = 1000;; size *= 4) {
    const std::string_view piece = training.substr(0, size);
    const PipelineTokenizer tokenizer = trained(s, piece);
    const double seen = tokens_per_byte(tokenizer, piece), unseen = tokens_per_byte(tokenizer, held_out);
    say(stdout, "{:>12}{:>12}{:>16.3f}{:>16.3f}{:>8.2f}\n", piece.size(), tokenizer.size(), seen, unseen,
        unseen / seen);
    if (piece.size() == training.size()) break;
  }
  say(stdout,
      "\nA ratio near 1 says that the merges are those of the language; a vocabulary from little text\n"
      "has learned its text by heart.\n");
}

void run(const Settings& s) {
  const std::string text = s.data.empty() ? examples::default_text() : read_text(s.data);
  check(text.size() >= 10000, "the text has {} bytes, wanted at least 10000", text.size());
  const PipelineTokenizer tokenizer = trained(s, text);
  (s.kind == "bpe" ? show_merges : show_pieces)(tokenizer, s.sentence);
  show_ids(tokenizer, s.sentence);
  show_overfitting(s, text);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("tokenizer", [&] {
    Settings s;
    OptionList options = options_of(s);
    examples::CommandLine line("tokenizer", "Shows how tokens are learned, and how a vocabulary overfits.",
                               kExamples);
    if (const auto code = line.parse(options, argc, argv)) return *code;
    run(s);
    return 0;
  });
}
