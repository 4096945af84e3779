// Mutated tokenizer.json files are read or refused.
#include <doctest/doctest.h>

#include <ctime>

#include "core/error.h"
#include "core/random.h"
#include "nn/text/tokenizer.h"
#include "nn/text/train_bpe.h"
#include "nn/text/word_piece.h"
#include "nn/text/words.h"
#include "tests/environment.h"
#include "tests/memory_use.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// Replaces a part of the text by a part from elsewhere, by a few characters with a meaning, or by
/// nothing.
std::string mutated(std::string text, Generator& random) {
  const auto below = [&](size_t n) {
    return static_cast<size_t>(random.next_below(static_cast<int64_t>(n) + 1));
  };
  static const std::vector<std::string> kParts = {"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\"\"",
                                                  "null",
                                                  "true",
                                                  "0",
                                                  "7",
                                                  "-1",
                                                  "1e9",
                                                  "99999",
                                                  "\\",
                                                  "\xff",
                                                  "\"a b c\"",
                                                  "\"Sequence\"",
                                                  "\"(\"",
                                                  "\"BPE\"",
                                                  "\"WordPiece\"",
                                                  "\"ByteLevel\"",
                                                  "\"type\":"};
  for (size_t edits = 1 + below(1); edits > 0; --edits) {
    const size_t at = below(text.size()), length = std::min(below(4), text.size() - at),
                 from = below(text.size());
    const size_t choice = below(2);
    text.replace(at, length,
                 choice == 0   ? text.substr(from, below(8))
                 : choice == 1 ? kParts[below(kParts.size() - 1)]
                               : std::string());
  }
  return text;
}

}  // namespace

TEST_CASE("2,000 mutated tokenizer.json are read or refused, and what is read encodes text") {
  const PipelineTokenizer bpe = train_bpe("to be or not to be", {.vocabulary = 262, .pattern = "\\w+"});
  const std::string long_bytes = bpe.to_json();
  const std::vector<std::string> whole = {
      bert_tokenizer({"[UNK]", "[CLS]", "[SEP]", "a", "##b", "c"}).to_json(),
      PipelineTokenizer({.normalizer = Normalizer({{Normalization::Kind::nfc}}),
                         .splitter = Splitter({{Pattern("a+"), Remains::matches}}),
                         .model = std::make_shared<Words>(VocabularyTable({"a", "<unk>"})),
                         .added = {{.id = 2, .text = "<x>", .strip_left = true}}})
          .to_json(),
      // the bytes without a letter are left out, so that edits hit the other members
      long_bytes.substr(0, long_bytes.find("\"vocab\"")) +
          R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"};
  const auto rounds = static_cast<size_t>(test::from_environment("VITRINE_FUZZ_ROUNDS", 2000));
  Generator random(static_cast<uint64_t>(test::from_environment("VITRINE_FUZZ_SEED", 1)));
  std::vector<size_t> read(whole.size(), 0);
  for (size_t round = 0; round < rounds; ++round) {
    const std::string text = mutated(whole[round % whole.size()], random);
    INFO(text);
    const std::clock_t start = std::clock();
    const test::MemoryUse use = test::memory_use([&] {
      try {
        const auto tokenizer = tokenizer_from_json(text, "mutated");
        ++read[round % whole.size()];
        tokenizer->decode(tokenizer->encode("ab <x> c<end> é\xff", SpecialTokens::as_tokens));
      } catch (const Error& error) {
        CHECK(std::string(error.what()).size() < 2000);
      }
    });
    CHECK(std::clock() - start <= CLOCKS_PER_SEC);
    CHECK(use.peak < 100 * text.size() + 100000);
  }
  for (const size_t count : read) {
    CHECK(count > rounds / whole.size() / 50);
    CHECK(count < rounds / whole.size());
  }
}
