// Tokenizers on published data: GPT-2's files with expected ids, and a corpus to train on.
#include <doctest/doctest.h>

#include "nn/text/gpt2_files.h"
#include "nn/text/read_text.h"
#include "nn/text/train_bpe.h"
#include "tests/cases.h"
#include "tests/data.h"
#include "tests/nn/text/naive_bpe.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;

TEST_CASE("GPT-2's files give the expected ids and the text back") {
  const auto folder = data_file("gpt2_tokenizer");
  if (!folder) return;
  const PipelineTokenizer loaded =
      load_gpt2_tokenizer((*folder / "encoder.json").string(), (*folder / "vocab.bpe").string());
  CHECK(loaded.size() == 50257);
  const auto saved = tokenizer_from_json(loaded.to_json(), "saved");
  int64_t special = 0;
  const Json cases = read_json(*folder / "cases.json");
  CHECK(cases.size() >= 57);
  for (const Json& c : cases) {
    const std::string text = c.at("text");
    INFO(text);
    const bool allowed = c.at("allow_special");
    const auto mode = allowed ? SpecialTokens::as_tokens : SpecialTokens::as_text;
    const std::vector<int64_t> expected = c.at("ids");
    const Tokens ids = loaded.encode(text, mode), again = saved->encode(text, mode);
    CHECK(std::vector<int64_t>(ids.begin(), ids.end()) == expected);
    CHECK(std::vector<int64_t>(again.begin(), again.end()) == expected);
    CHECK(loaded.decode(ids) == text);
    special += std::count(expected.begin(), expected.end(), 50256);
  }
  CHECK(special > 0);
}

TEST_CASE("the merges of the corpus are those of a trainer that counts all pairs for each merge") {
  const auto path = data_file("bpe_corpus/corpus.en");
  if (!path) return;
  const std::string text = read_text(path->string());
  const PipelineTokenizer tokenizer = train_bpe(text, {.vocabulary = 400, .special = {"<|endoftext|>"}});
  CHECK(tokenizer.size() == 400);
  CHECK(tokenizer.find("<|endoftext|>") == 399);
  const auto& bpe = dynamic_cast<const Bpe&>(*tokenizer.stages().model);
  CHECK(texts_of(bpe) == naive_merges(count_words(text, tokenizer.stages().splitter), 143));
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}
