// Files of tokenizers that are broken or not supported: errors with the place and the reason.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/text/gpt2_files.h"
#include "nn/text/tokenizer.h"
#include "nn/text/train_bpe.h"
#include "nn/text/train_word_piece.h"
#include "tests/folder.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

using Json = nlohmann::json;

const Json kBpe = Json::parse(R"({
  "version": "1.0", "truncation": null, "padding": null, "normalizer": {"type": "NFC"},
  "added_tokens": [{"id": 3, "content": "<e>", "special": true}],
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "post_processor": {"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<e>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<e>": {"id": "<e>", "ids": [3], "tokens": ["<e>"]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
const Json kBert = Json::parse(R"({
  "normalizer": {"type": "BertNormalizer", "strip_accents": null}, "pre_tokenizer": {"type": "BertPreTokenizer"},
  "decoder": {"type": "WordPiece", "prefix": "##"},
  "model": {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": {"[UNK]": 0, "a": 1}}})");
const Json kWords = Json::parse(R"({
  "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1}}})");

std::string error_of(const std::string& json) {
  return test::error_of([&] { tokenizer_from_json(json, "t.json"); });
}

/// The error of a file with one value changed.
void refuses(Json file, const std::string& pointer, const Json& value, const std::string& message) {
  file[Json::json_pointer(pointer)] = value;
  const std::string error = error_of(file.dump());
  CHECK_MESSAGE(error.find("t.json: " + message) != std::string::npos, error);
}

Json kind(const std::string& type) { return {{"type", type}}; }

}  // namespace

TEST_CASE("the files that the other cases break are in order, and their options count") {
  for (const Json& file : {kBpe, kBert, kWords}) CHECK(error_of(file.dump()).empty());
  const auto ids = [](const Json& file, const char* text) {
    const Tokens tokens = tokenizer_from_json(file.dump(), "t")->encode(text);
    return std::vector<int64_t>(tokens.begin(), tokens.end());
  };
  CHECK(ids(kBpe, "ab") == std::vector<int64_t>{0, 1});  // a+ is a word of its own
  Json changed = kBpe;
  changed["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  CHECK(ids(changed, "ab") == std::vector<int64_t>{2});
  changed["pre_tokenizer"] = kBpe["pre_tokenizer"];
  changed["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", "a+"}};  // not a pattern
  CHECK(ids(changed, "ab") == std::vector<int64_t>{2});
  changed["model"]["merges"] = Json::array({Json::array({"a", "b"})});  // the form of newer files
  CHECK(ids(changed, "ab") == std::vector<int64_t>{2});
  changed["model"].erase("type");
  CHECK(tokenizer_from_json(changed.dump(), "t")->kind() == "bpe");
  CHECK(ids(kBert, "A") == std::vector<int64_t>{1});
  changed = kBert;
  changed["normalizer"]["lowercase"] = false;
  CHECK(ids(changed, "A") == std::vector<int64_t>{0});
  CHECK(ids(changed, "á") == std::vector<int64_t>{0});  // accents stay, as letters keep their case
  changed["normalizer"]["strip_accents"] = true;
  CHECK(ids(changed, "á") == std::vector<int64_t>{1});
  changed = kBert;
  changed["added_tokens"] = {{{"id", 2}, {"content", "HI"}}};  // not special, so it is normalized
  CHECK(ids(changed, "hI") == std::vector<int64_t>{2});
  changed["added_tokens"][0]["normalized"] = false;
  CHECK(ids(changed, "hI") == std::vector<int64_t>{0});
  changed = kBpe;
  changed["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  changed["model"]["vocab"] = {{"a", 0}, {"1", 1}, {"a1", 2}};
  changed["model"]["merges"] = {"a 1"};
  CHECK(ids(changed, "a1") == std::vector<int64_t>{0, 1});  // GPT-2's pattern is the default
  changed["pre_tokenizer"]["use_regex"] = false;
  CHECK(ids(changed, "a1") == std::vector<int64_t>{2});
  changed["model"]["vocab"] = {{"a", 0}, {"1", 1}, {"a1", 2}, {"a11", 3}};
  changed["added_tokens"][0]["id"] = 4;
  changed["post_processor"] = nullptr;
  CHECK(ids(changed, "a11") == std::vector<int64_t>{2, 1});
  changed["model"]["ignore_merges"] = true;
  CHECK(ids(changed, "a11") == std::vector<int64_t>{3});
  changed = kWords;
  changed["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Removed"}};
  CHECK(ids(changed, "a?") == std::vector<int64_t>{0});
  changed["pre_tokenizer"]["invert"] = true;
  CHECK(ids(changed, "a?") == std::vector<int64_t>{1});
}

TEST_CASE("broken JSON is an error with its line") {
  const auto has = [](const std::string& json, const std::string& part) {
    const std::string error = error_of(json);
    CHECK_MESSAGE(error.find(part) != std::string::npos, error);
  };
  has("{\n  \"model\": {\n  ]\n}", "t.json is not valid JSON: parse error at line 3, column 3");
  has("", "t.json is not valid JSON: parse error at line 1, column 1");
  has("{} x", "not valid JSON");
  has("\"\xff\"", "not valid JSON");
  has("{\"model\": " + std::string(200000, '['), "not valid JSON");
  has("7", "t.json: the file is 7, wanted an object");
  has("[\"ab\"]", "CharacterVocabulary");
  has(std::string(300000, '[') + std::string(300000, ']'), "CharacterVocabulary");
}

TEST_CASE("kinds and options that are not supported are refused by name") {
  refuses(kBpe, "/version", "2.0", "/version is not 1.0");
  refuses(kBpe, "/extra", 1, "the file has the member extra, which is not supported");
  refuses(kBpe, "/truncation", {{"max_length", 5}}, "/truncation is an object, which is not supported");
  refuses(kBpe, "/padding", {{"length", 5}}, "/padding is an object, which is not supported");
  refuses(kBpe, "/normalizer", kind("Nmt"), "/normalizer/type is Nmt, which is no normalizer");
  refuses(kBpe, "/normalizer/left", true, "/normalizer has the member left");
  refuses(kBpe, "/normalizer", {{"type", "Sequence"}, {"normalizers", {kind("NFC"), kind("Replace")}}},
          "/normalizer/normalizers/1/type is Replace");
  refuses(kBert, "/pre_tokenizer", kind("Metaspace"),
          "/pre_tokenizer/type is Metaspace, which is no pre-tokenizer");
  refuses(kBpe, "/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext",
          "/pre_tokenizer/pretokenizers/0/behavior is MergedWithNext, wanted Isolated or Removed");
  refuses(kBpe, "/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a",
          "/pre_tokenizer/pretokenizers/0/pattern/Regex is refused: Pattern: (a is not a regular expression");
  refuses(kBpe, "/pre_tokenizer/pretokenizers/1/add_prefix_space", true,
          "/pre_tokenizer/pretokenizers/1/add_prefix_space is true after another split");
  refuses(kBpe, "/pre_tokenizer/pretokenizers/2", kind("Whitespace"),
          "/pre_tokenizer/pretokenizers/2 follows ByteLevel");
  refuses(kBpe, "/pre_tokenizer", kind("Whitespace"), "/model is a BPE model without ByteLevel");
  refuses(kWords, "/pre_tokenizer", kind("ByteLevel"), "/model is WordLevel after ByteLevel, wanted BPE");
  refuses(kWords, "/model/type", "Unigram", "/model/type is Unigram, wanted BPE, WordPiece or WordLevel");
  refuses(kBpe, "/model/dropout", 0.1, "/model/dropout is 0.1, which is not supported");
  refuses(kBpe, "/model/unk_token", "<unk>", "/model/unk_token is \"<unk>\", which is not supported");
  refuses(kBpe, "/model/byte_fallback", true, "/model/byte_fallback is true");
  refuses(kBpe, "/decoder", kind("Fuse"), "/decoder/type is Fuse, wanted ByteLevel for a BPE model");
  refuses(kBert, "/decoder", kind("BPEDecoder"), "/decoder/type is BPEDecoder, wanted WordPiece");
  refuses(kBert, "/decoder/prefix", "@@", "/decoder/prefix differs from the continuing_subword_prefix ##");
  refuses(kWords, "/decoder", kind("CTC"), "/decoder/type is CTC, wanted ByteFallback or Fuse");
  refuses(kWords, "/decoder", kind("ByteFallback"),
          "/model is refused: Words: the vocabulary has no token <0x00>");
  refuses(kBpe, "/post_processor", kind("Cut"), "/post_processor/type is Cut, which is no post-processor");
  refuses(kBpe, "/added_tokens/0/single_word", true,
          "/added_tokens/0/single_word is true, which is not supported");
}

TEST_CASE("values of a wrong type or size are refused with their place") {
  refuses(kBpe, "/model/vocab/b", "1", "/model/vocab/b is \"1\", wanted a whole number from 0 to 2^31 - 1");
  refuses(kBpe, "/model/vocab/b", -1, "/model/vocab/b is -1, wanted a whole number");
  refuses(kBpe, "/model/vocab/b", 4000000000, "/model/vocab/b is 4000000000, wanted a whole number");
  refuses(kBpe, "/model/vocab/b", 3, "/model/vocab/b is 3, wanted an id below the number of tokens, 3");
  refuses(kBpe, "/model/vocab/b", 0, "/model/vocab/b is 0, the id of \"a\" as well");
  refuses(kBpe, "/model/vocab/~1 漢", 3, "/model/vocab/~1 漢 has a key with a character that spells no byte");
  refuses(kBpe, "/model/vocab", Json::object(),
          "/model/merges/0 joins \"a\" and \"b\": \"a\" is not in the vocab");
  refuses(kWords, "/model/vocab", Json::object(),
          "the file is refused: PipelineTokenizer: the vocabulary is empty");
  refuses(kBpe, "/model/merges/0", "a b c", "/model/merges/0 has 3 parts, wanted 2");
  refuses(kBpe, "/model/merges/0", "b a",
          "/model/merges/0 joins \"b\" and \"a\": \"ba\" is not in the vocabulary");
  refuses(kBpe, "/model/merges/0", 7, "/model/merges/0 is 7, wanted a text");
  refuses(kBpe, "/model/merges/1", "a b",
          "/model/merges is refused: Bpe: merge 1 joins \"a\" and \"b\", as an earlier");
  refuses(kBpe, "/model/merges", "a b", "/model/merges is \"a b\", wanted a list");
  refuses(kBert, "/model/vocab", {{"a", 0}},
          "/model is refused: WordPiece: the vocabulary has no token [UNK]");
  refuses(kBert, "/normalizer/lowercase", "yes", "/normalizer/lowercase is \"yes\", wanted true or false");
  refuses(kBert, "/normalizer", 7, "/normalizer is 7, wanted an object");
  refuses(kBpe, "/added_tokens/0/id", 5,
          "the file is refused: PipelineTokenizer: the added token <e> has the id 5");
  refuses(kBpe, "/added_tokens/0/content", "", "the file is refused: AddedTokens: the token 3 is empty");
  refuses(kBpe, "/post_processor/single/1", {{"Sequence", {{"id", "B"}}}},
          "/post_processor/single/1 is not the one");
  refuses(kBpe, "/post_processor/single/1", kBpe["post_processor"]["single"][0],
          "/post_processor/single has no text A");
  refuses(kBpe, "/post_processor/special_tokens/<e>/ids/0", 9,
          "the file is refused: PipelineTokenizer: a text begins");
  Json file = kBpe;
  file["model"].erase("merges");
  CHECK(error_of(file.dump()).find("t.json: /model has no member merges") != std::string::npos);
}

TEST_CASE("a trained tokenizer is saved as GPT-2's files, unless it differs from GPT-2's") {
  const test::Folder folder;
  const std::string encoder = folder / "encoder.json", merges = folder / "vocab.bpe";
  const std::string text = "the cat sat on the mat, the café's cat.<|endoftext|>\n 12 cats";
  for (const std::vector<std::string>& special : {std::vector<std::string>{}, {"<|endoftext|>"}}) {
    const PipelineTokenizer tokenizer = train_bpe(text, {.vocabulary = 290, .special = special});
    save_gpt2_tokenizer(tokenizer, encoder, merges);
    const PipelineTokenizer loaded = load_gpt2_tokenizer(encoder, merges);
    CHECK(loaded.size() == tokenizer.size());
    for (const SpecialTokens how : {SpecialTokens::as_text, SpecialTokens::as_tokens})
      CHECK(std::ranges::equal(loaded.encode(text, how), tokenizer.encode(text, how)));
  }
  const auto refused = [&](const PipelineTokenizer& tokenizer, const std::string& why) {
    CHECK_THROWS_WITH_AS(save_gpt2_tokenizer(tokenizer, encoder, merges), doctest::Contains(why.c_str()),
                         Error);
  };
  refused(train_word_piece(text, {.vocabulary = 60}), "wanted byte-level BPE, got word_piece");
  refused(train_bpe(text, {.vocabulary = 270, .pattern = "\\w+"}), "splits a text by another pattern");
  refused(train_bpe(text, {.vocabulary = 270, .special = {"<s>"}}), "has other special tokens");
  const auto changed = [&](void (*change)(Pipeline&)) {
    Pipeline stages = train_bpe(text, {.vocabulary = 270}).stages();
    change(stages);
    return PipelineTokenizer(std::move(stages));
  };
  refused(changed([](Pipeline& p) {
            const auto& bpe = dynamic_cast<const Bpe&>(*p.model);
            std::vector<Merge> merges(bpe.merges().rbegin(), bpe.merges().rend());
            p.model = std::make_shared<Bpe>(bpe.vocabulary(), merges);
          }),
          "the merges are out of order: ");
  refused(changed([](Pipeline& p) { p.blank_first = true; }), "changes a text before it is split");
  refused(changed([](Pipeline& p) { p.back = {1}; }), "puts tokens around a text");
}

TEST_CASE("GPT-2's files: errors name the line") {
  const test::Folder folder;
  const auto load = [&](const std::string& encoder, const std::string& merges) -> std::string {
    test::write_bytes(folder / "encoder.json", encoder);
    test::write_bytes(folder / "vocab.bpe", merges);
    try {
      const auto tokenizer = load_gpt2_tokenizer(folder / "encoder.json", folder / "vocab.bpe");
      return fmt::format("{}", fmt::join(tokenizer.encode("cabĠ"), " "));
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string good = R"({"a": 0, "b": 1, "c": 2, "ab": 3, "cab": 4, "Ä": 5, "ł": 6})";
  CHECK(load(good, "#version: 0.2\na b\nc ab\n") == "4 5 6");
  CHECK(load(good, "a b\r\n") == "2 3 5 6");
  const auto has = [&](const std::string& error, const std::string& part) {
    CHECK_MESSAGE(error.find(part) != std::string::npos, error);
  };
  has(load(good, "#version: 0.2\nc ab\na b\n"),
      "vocab.bpe, line 2: the merges are out of order: \"ab\" is not made");
  has(load(good, "#version: 0.2\na b\nb a\n"), "vocab.bpe, line 3: \"ba\" is not in the vocabulary");
  has(load(good, "a b\nab\n"), "vocab.bpe, line 2: \"ab\" is no merge");
  has(load(good, "a b c\n"), "vocab.bpe, line 1: \"a b c\" is no merge");
  has(load(good, "a b\na b\n"), "vocab.bpe: Bpe: merge 1 joins \"a\" and \"b\", as an earlier merge does");
  has(load("{\"a\": 0,\n}", "a b\n"), "encoder.json is not valid JSON: parse error at line 2, column 1");
  has(load("{\"a\": 1}", "a b\n"), "encoder.json: /a is 1, wanted an id below the number of tokens, 1");
  has(load("[]", "a b\n"), "encoder.json: the file is a list, wanted an object");
  has(load(good, ""), "vocab.bpe is empty");
}
