// Tokenizers: what each promises, and byte pair encoding against its textbook form.
#include "nn/text/tokenizer.h"

#include <doctest/doctest.h>

#include <ctime>
#include <set>

#include "core/random.h"
#include "nn/text/characters.h"
#include "nn/text/read_text.h"
#include "nn/text/train_bpe.h"
#include "nn/text/train_word_piece.h"
#include "nn/text/word_piece.h"
#include "nn/text/words.h"
#include "tests/cases.h"
#include "tests/data.h"
#include "tests/folder.h"
#include "tests/nn/text/naive_bpe.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;

namespace {

const std::string kText =
    "She sells sea shells by the sea shore. Don't they sell? 10 shells, 100 shells!\n"
    "Là-bas, les élèves élèvent des chèvres; 漢字 und 😀\xff\n";

std::vector<std::unique_ptr<Tokenizer>> one_of_each() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(std::make_unique<CharacterVocabulary>(kText));
  all.push_back(
      std::make_unique<PipelineTokenizer>(train_bpe(kText, {.vocabulary = 300, .special = {"<s>"}})));
  all.push_back(std::make_unique<PipelineTokenizer>(train_words(kText, 280)));
  all.push_back(std::make_unique<PipelineTokenizer>(
      bert_tokenizer({"[UNK]", "[CLS]", "[SEP]", "she", "sell", "##s", "sea", ".", "!", "?"})));
  return all;
}

std::vector<int64_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                            SpecialTokens special = SpecialTokens::as_text) {
  const Tokens ids = tokenizer.encode(text, special);
  return {ids.begin(), ids.end()};
}

/// The words of a text with | between them.
std::string words_of(const Splitter& splitter, std::string_view text) {
  std::string joined;
  splitter.split(text, [&](std::string_view word) { joined += std::string(word) + "|"; });
  return joined;
}

std::string random_text(Generator& random, int64_t letters, int64_t length) {
  std::string text;
  for (int64_t i = random.next_below(length); i >= 0; --i)
    text += static_cast<char>('a' + random.next_below(letters));
  return text;
}

void check_error(const std::string& error, const std::string& part) {
  CHECK_MESSAGE(error.find(part) != std::string::npos, error);
}

}  // namespace

TEST_CASE("every tokenizer finds its tokens by text, comes back from JSON, and refuses unknown ids") {
  const Folder folder;
  for (const auto& tokenizer : one_of_each()) {
    INFO(tokenizer->kind());
    for (int64_t id = 0; id < tokenizer->size(); ++id) CHECK(tokenizer->find(tokenizer->token(id)) == id);
    CHECK(!tokenizer->find("no such token"));
    save_tokenizer(folder / "saved", *tokenizer);
    const auto loaded = load_tokenizer(folder / "saved");
    CHECK(loaded->kind() == tokenizer->kind());
    CHECK(loaded->to_json() == tokenizer->to_json());
    CHECK(ids_of(*loaded, kText) == ids_of(*tokenizer, kText));
    CHECK(loaded->special_tokens() == tokenizer->special_tokens());
    for (const int64_t id : {int64_t{-1}, tokenizer->size()}) {
      check_error(error_of([&] {
                    tokenizer->decode({0, id});
                  }),
                  fmt::format("decode: ids has {} at position 1", id));
      check_error(error_of([&] { tokenizer->token(id); }), fmt::format("token: id is {}, outside [0, ", id));
      check_error(error_of([&] { DecodingStream(*tokenizer).push(id); }), "outside [0, ");
    }
    CHECK(tokenizer->encode("").size() == 0);
    CHECK(tokenizer->decode({}).empty());
  }
}

TEST_CASE("characters, byte pairs and words give every text back, also bytes that are no characters") {
  const auto all = one_of_each();
  Generator random(3);
  for (size_t i = 0; i < 3; ++i) {
    INFO(all[i]->kind());
    CHECK(all[i]->decode(all[i]->encode(kText)) == kText);
    CHECK(all[i]->encode(kText).size() > 20);
    for (int round = 0; round < 50 && i > 0; ++round) {
      std::string bytes;
      for (int64_t n = random.next_below(60); n > 0; --n) bytes += static_cast<char>(random.next_below(256));
      CHECK(all[i]->decode(all[i]->encode(bytes)) == bytes);
    }
  }
  CHECK(all[1]->encode(kText).size() < std::ssize(kText) / 2);  // it has learned something
}

TEST_CASE("a stream gives whole characters as soon as they are complete, and no text is lost") {
  for (const auto& tokenizer : one_of_each()) {
    const Tokens ids = tokenizer->encode(kText);
    DecodingStream stream(*tokenizer);
    std::string text;
    for (const int64_t id : ids) text += stream.push(id);
    CHECK(text + stream.finish() == tokenizer->decode(ids));
  }
  const PipelineTokenizer bytes = train_bpe("a", {.vocabulary = 256});
  DecodingStream stream(bytes);
  for (const char* part : {"\xF0", "\x9F", "\x98"}) CHECK(stream.push(bytes.encode(part)).empty());
  CHECK(stream.push(bytes.encode("\x80")) == "😀");
  CHECK(stream.push(bytes.encode("a\xE6\xBC")) == "a");
  CHECK(stream.push(bytes.encode("z")) ==
        "\xE6\xBC"
        "z");                                          // the character can no longer be completed
  CHECK(stream.push(bytes.encode("\x80")) == "\x80");  // which begins no character
  CHECK(stream.push(bytes.encode("\xC3")).empty());
  CHECK(stream.finish() == "\xC3");
  CHECK(stream.finish().empty());
}

TEST_CASE("learned merges are those of a trainer that counts all pairs for each merge") {
  Generator random(5);
  for (int round = 0; round < 60; ++round) {
    std::string text;
    const int64_t letters = 1 + random.next_below(4);
    for (int word = 0; word < 30; ++word) text += random_text(random, letters, 9) + " ";
    const int64_t least = 1 + random.next_below(3);
    INFO(text);
    const PipelineTokenizer tokenizer = train_bpe(text, {.vocabulary = 400, .least_count = least});
    const auto& bpe = dynamic_cast<const Bpe&>(*tokenizer.stages().model);
    const auto words = count_words(text, tokenizer.stages().splitter);
    const auto expected = naive_merges(words, 144, least);
    // Two merges can make the same token, so that a full vocabulary can have more merges.
    REQUIRE(texts_of(bpe).size() >= expected.size());
    CHECK(texts_of(bpe) == naive_merges(words, texts_of(bpe).size(), least));
    CHECK((tokenizer.size() == 400 || texts_of(bpe).size() == expected.size()));
  }
}

TEST_CASE("the merges of a small text: the most frequent pair first, and of equal ones the greater") {
  // ab occurs 3 times; then (ab, c), (c, d) and (d, ab) occur twice, and (d, ab) is the greatest.
  const PipelineTokenizer tokenizer =
      train_bpe("abcdabcdab", {.vocabulary = 260, .special = {"<e>"}, .pattern = ".+"});
  const auto& bpe = dynamic_cast<const Bpe&>(*tokenizer.stages().model);
  CHECK(texts_of(bpe) == std::vector<TextPair>{{"a", "b"}, {"d", "ab"}, {"c", "dab"}});
  CHECK(tokenizer.find("ab") == 256);
  CHECK(tokenizer.find("<e>") == 259);
  CHECK(ids_of(tokenizer, "abcdab<e>") == std::vector<int64_t>{256, 258, '<', 'e', '>'});
  CHECK(ids_of(tokenizer, "cab<e>", SpecialTokens::as_tokens) == std::vector<int64_t>{'c', 256, 259});
  const auto steps = bpe.merge_steps("xcdab");
  CHECK(steps == std::vector<std::vector<int32_t>>{
                     {'x', 'c', 'd', 'a', 'b'}, {'x', 'c', 'd', 256}, {'x', 'c', 257}, {'x', 258}});
}

namespace {

/// The words of a text as BERT splits it, in characters; all but the first continue a word.
std::vector<NaiveWord> in_characters(std::string_view text) {
  std::vector<NaiveWord> words;
  for (const auto& [word, count] : count_words(bert_normalizer()(text), bert_splitter())) {
    words.emplace_back(std::vector<std::string>(), count);
    for (const std::string& c : split_characters(word))
      words.back().first.push_back(words.back().first.empty() ? c : "##" + c);
  }
  return words;
}

}  // namespace

TEST_CASE("word pieces are learned as a trainer that counts all pairs learns them") {
  Generator random(9);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (int word = 0; word < 40; ++word) text += random_text(random, 4, 9) + " é.\n";
    const int64_t least = 1 + random.next_below(3), size = 20 + random.next_below(60);
    INFO(text);
    const PipelineTokenizer tokenizer = train_word_piece(text, {.vocabulary = size, .least_count = least});
    std::vector<NaiveWord> words = in_characters(text);
    std::vector<std::string> expected(kBertTokens.begin(), kBertTokens.end());
    std::set<std::string> all, continuing;
    for (const auto& [pieces, count] : words)
      for (const std::string& piece : pieces) {
        all.insert(piece.starts_with("##") ? piece.substr(2) : piece);
        if (piece.starts_with("##")) continuing.insert(piece);
      }
    expected.insert(expected.end(), all.begin(), all.end());
    expected.insert(expected.end(), continuing.begin(), continuing.end());
    while (std::ssize(expected) < size) {
      const auto counts = pair_counts(words);
      if (counts.empty()) break;
      const TextPair best = most_frequent(counts);
      if (counts.at(best) < least) break;
      join_pair(words, best, "##");
      const std::string merged = best.first + best.second.substr(2);
      if (std::find(expected.begin(), expected.end(), merged) == expected.end()) expected.push_back(merged);
    }
    std::vector<std::string> learned;
    for (int64_t id = 0; id < tokenizer.size(); ++id) learned.push_back(tokenizer.token(id));
    CHECK(learned == expected);
  }
}

TEST_CASE("each merge of Hugging Face's trainer of word pieces is one of the most frequent pairs") {
  const Json judged = read_json(source_directory() / "tests/data/tokenizer_cases/word_piece_training.json");
  const std::string source = read_text((source_directory() / "examples/data/vitrine_source.txt").string());
  const std::string text = source.substr(0, position_of_character(source, judged.at("characters")));
  std::vector<NaiveWord> words = in_characters(text);
  std::set<std::string> tokens;
  for (const auto& merge : judged.at("merges")) {
    const TextPair pair(merge.at(0), merge.at(1));
    const auto counts = pair_counts(words);
    REQUIRE(counts.contains(pair));
    CHECK(counts.at(pair) == counts.at(most_frequent(counts)));
    join_pair(words, pair, "##");
    tokens.insert(pair.first + pair.second.substr(2));
  }
  CHECK(tokens.size() > 200);
  // The tokens differ only where it was free to choose.
  const PipelineTokenizer ours = train_word_piece(text, {.vocabulary = judged.at("vocabulary")});
  CHECK(ours.size() == judged.at("vocabulary"));
  for (const std::string single : judged.at("single")) CHECK_MESSAGE(ours.find(single), single);
  int64_t shared = 0;
  for (const std::string& token : tokens) shared += ours.find(token) ? 1 : 0;
  CHECK(shared > 0.9 * static_cast<double>(tokens.size()));
}

TEST_CASE("a trained tokenizer of word pieces is one of BERT's, with all its words known") {
  const std::string text = "The dogs see the Dög. unseen";
  const PipelineTokenizer lower = train_word_piece(text, {.vocabulary = 60});
  CHECK(ids_of(lower, "[MASK]", SpecialTokens::as_tokens) == std::vector<int64_t>{4});
  CHECK(lower.decode(lower.encode("The dög see")) == "the dog see");
  CHECK(lower.encode("dogs").size() == 1);
  CHECK(ids_of(lower, "xyz") == std::vector<int64_t>{1});
  CHECK(lower.with_ends({}).size() == 2);
  const PipelineTokenizer cased = train_word_piece(text, {.vocabulary = 60, .lowercase = false});
  CHECK(cased.decode(cased.encode("The Dög")) == "The Dög");
  CHECK(train_word_piece(text, {.vocabulary = 60, .least_count = 2}).size() < lower.size());
  check_error(error_of([] { train_word_piece(" \n", {}); }), "the text has no words");
  check_error(error_of([&] { train_word_piece(text, {.vocabulary = 9}); }),
              "vocabulary is 9, wanted at least");
  check_error(error_of([&] { train_word_piece(text, {.least_count = 0}); }), "least_count is 0");
}

TEST_CASE("special tokens split the text on which byte pairs are learned") {
  const std::string text = "ab<e>ab<e>ab<e>";
  CHECK(train_bpe(text, {.vocabulary = 300, .special = {"<e>"}, .pattern = ".+"}).size() == 258);
  CHECK(train_bpe(text, {.vocabulary = 300, .pattern = ".+"}).size() > 258);
}

TEST_CASE("a word is encoded as its definition says") {
  Generator random(7);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (int word = 0; word < 60; ++word) text += random_text(random, 3, 12) + " ";
    const PipelineTokenizer tokenizer = train_bpe(text, {.vocabulary = 256 + random.next_below(80)});
    const auto& bpe = dynamic_cast<const Bpe&>(*tokenizer.stages().model);
    for (int word = 0; word < 40; ++word) {
      const std::string other = random_text(random, 3, 40);
      std::vector<int32_t> ids;
      bpe.append_ids(other, ids);
      CHECK(ids == bpe.merge_steps(other).back());
    }
  }
}

TEST_CASE("a word that is a token is taken whole only if the model says so") {
  const VocabularyTable tokens({"a", "b", "ab", "abb"});
  for (const bool whole : {false, true}) {
    const Bpe bpe(tokens, {{0, 1, 2}}, whole);
    std::vector<int32_t> ids;
    bpe.append_ids("abb", ids);
    CHECK(ids == (whole ? std::vector<int32_t>{3} : std::vector<int32_t>{2, 1}));
    CHECK(bpe.merge_steps("abb").back() == ids);
  }
}

TEST_CASE("a word of 100,000 bytes takes no more than n log n steps") {
  const PipelineTokenizer tokenizer = train_bpe(std::string(3000, 'a') + kText, {.vocabulary = 300});
  Generator random(1);
  std::string mixed;
  for (int i = 0; i < 100000; ++i) mixed += static_cast<char>('a' + random.next_below(20));
  for (const std::string& word : {std::string(100000, 'a'), std::string(100000, ' '), mixed}) {
    const std::clock_t start = std::clock();
    CHECK(tokenizer.decode(tokenizer.encode(word)) == word);
    // In n² steps it takes minutes
    CHECK(std::clock() - start < 10 * CLOCKS_PER_SEC);
  }
}

TEST_CASE("GPT-2's pattern keeps the blank before a word") {
  const Splitter gpt2({{Pattern(kGpt2Pattern), Remains::all}});
  CHECK(words_of(gpt2, "It's here,  don't\n\nI'LL 12x") == "It|'s| here|,| | don|'t|\n|\n|I|'|LL| 12|x|");
  CHECK(words_of(gpt2, "a \xff\xfe\n") == "a| |\xff\xfe|\n|");  // bytes that are no characters
  CHECK(words_of(gpt2, "\u00a0\u3000x") == "\u00a0|\u3000|x|");
  CHECK(words_of(gpt2, "\u180e") == "\u180e|");  // no white space, so it can follow other marks
  CHECK(words_of(gpt2, "!\u180e") == "!\u180e|");
}

TEST_CASE("a split keeps all, the matches, or the text between them") {
  CHECK(words_of(Splitter(), "a b") == "a b|");
  CHECK(words_of(Splitter({{Pattern("-+"), Remains::all}}), "a--b-") == "a|--|b|-|");
  CHECK(words_of(Splitter({{Pattern("-+"), Remains::between}}), "a--b-") == "a|b|");
  CHECK(words_of(Splitter({{Pattern("-+"), Remains::matches}}), "a--b-") == "--|-|");
  CHECK(words_of(Splitter({{Pattern(" "), Remains::between}, {Pattern("[0-9]"), Remains::all}}), "a12 3b") ==
        "a|1|2|3|b|");
  CHECK(words_of(Splitter({{Pattern("x*"), Remains::all}}), "axxé") == "a|xx|é|");  // empty matches
  // The classes of Unicode, not of ASCII
  CHECK(words_of(Splitter({{Pattern(R"(\w+|\d)"), Remains::matches}}), "é漢٣ ½") == "é漢٣|½|");
  CHECK(words_of(Splitter({{Pattern("(?<=a)b"), Remains::all}}), "abb") == "a|b|b|");
  check_error(error_of([] { Pattern("a(b"); }), "Pattern: a(b is not a regular expression: at \"\": missing");
  check_error(error_of([] { Pattern("\xff"); }), "is not a regular expression");
  const Splitter slow({{Pattern("(a+)+[bc]d"), Remains::all}});
  check_error(error_of([&] { words_of(slow, std::string(60, 'a') + "d"); }),
              "fails on the text at byte 0: match limit");
}

TEST_CASE("Unicode normalization") {
  using Kind = Normalization::Kind;
  const auto normalized = [](std::string_view text, std::vector<Normalization> steps) {
    return Normalizer(std::move(steps))(text);
  };
  CHECK(normalized("e\u0301 ﬁ", {{Kind::nfc}}) == "é ﬁ");
  CHECK(normalized("é①", {{Kind::nfd}}) == "e\u0301①");
  CHECK(normalized("e\u0301 ﬁ①", {{Kind::nfkc}}) == "é fi1");
  CHECK(normalized("éﬁ", {{Kind::nfkd}}) == "e\u0301fi");
  CHECK(normalized("ÀΣİSS", {{Kind::lowercase}}) == "àσi\u0307ss");
  CHECK(normalized("é e\u0301", {{Kind::strip_accents}}) == "é e");
  CHECK(normalized("é", {{Kind::nfd}, {Kind::strip_accents}}) == "e");
  CHECK(normalized("a\xffz", {{Kind::nfc}}) == "a\ufffdz");
  CHECK(normalized("a\xffz", {}) == "a\xffz");
  CHECK(normalized("É\t\u200dx\x01漢\ufffd", {{Kind::bert}}) == "e x 漢 ");
  const auto with = [](auto change) {
    Normalization bert{Kind::bert, false, false, false, false};
    change(bert);
    return bert;
  };
  CHECK(normalized("É\t漢", {with([](auto&) {})}) == "É\t漢");
  CHECK(normalized("É\t漢", {with([](auto& n) { n.clean_text = true; })}) == "É 漢");
  CHECK(normalized("É\t漢", {with([](auto& n) { n.spaces_around_chinese = true; })}) == "É\t 漢 ");
  CHECK(normalized("É\t漢", {with([](auto& n) { n.strip_accents = true; })}) == "E\t漢");
  CHECK(normalized("É\t漢", {with([](auto& n) { n.lowercase = true; })}) == "é\t漢");
}

TEST_CASE("WordPiece takes the longest pieces, and a word without pieces is unknown as a whole") {
  const PipelineTokenizer bert = bert_tokenizer(
      {"[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "##a", "una", "!", "##ff", "漢", "don", "'", "t"});
  CHECK(ids_of(bert, "Unaffable") == std::vector<int64_t>{7, 9, 5});
  CHECK(ids_of(bert, "unaff unaffx!") == std::vector<int64_t>{7, 9, 0, 8});
  CHECK(ids_of(bert, "漢漢ünâ") == std::vector<int64_t>{10, 10, 7});
  CHECK(ids_of(bert, std::string(100, 'a')).size() == 1);
  CHECK(bert.decode({7, 9, 5, 8, 3}) == "unaffable! un");
  CHECK(bert.decode({4, 4}) == "##affaff");
  CHECK(bert.token(4) == "##aff");
  CHECK(ids_of(bert, "[SEP] [sep]", SpecialTokens::as_tokens) == std::vector<int64_t>{2, 0, 0, 0});
  const Tokens ends = bert.with_ends({7});
  CHECK(std::vector<int64_t>(ends.begin(), ends.end()) == std::vector<int64_t>{1, 7, 2});
  const VocabularyTable few({"[UNK]", "a", "##a"});
  std::vector<int32_t> ids;
  const WordPiece short_words(few, {.longest_word = 2});
  short_words.append_ids("aa", ids);
  short_words.append_ids("aaa", ids);
  CHECK(ids == std::vector<int32_t>{1, 2, 0});
  CHECK(WordPiece(few).piece("!", false) == "!");
  CHECK(WordPiece(few, {.clean_up = false}).piece("!", false) == " !");
  check_error(error_of([] { WordPiece(VocabularyTable({"a"})); }), "no token [UNK] for unknown words");
  check_error(error_of([] { WordPiece(VocabularyTable({"[UNK]", "\xff"})); }), "is not valid UTF-8");
}

TEST_CASE("words: the most frequent of a text, and the others in bytes or unknown") {
  const PipelineTokenizer words = train_words("a a b b c the the the", 259, "[a-z]+");
  CHECK(words.token(256) == " ");
  CHECK(words.token(257) == "the");
  CHECK(words.token(258) == "a");
  CHECK(ids_of(words, "the a") == std::vector<int64_t>{257, 256, 258});
  CHECK(ids_of(words, "the é") == std::vector<int64_t>{257, ' ', 0xC3, 0xA9});
  CHECK(words.decode({257, ' ', 0xC3, 0xA9}) == "the é");
  const PipelineTokenizer trap = train_words("<0x41> <0x41>", 300, R"(\S+)");
  CHECK(trap.decode(trap.encode("<0x41>")) == "<0x41>");  // which spells no A

  const Splitter at_space({{Pattern(R"(\s+)"), Remains::between}});
  const auto closed = [&](std::vector<std::string> tokens) {
    return PipelineTokenizer(
        {.splitter = at_space, .model = std::make_shared<Words>(VocabularyTable(std::move(tokens)))});
  };
  CHECK(ids_of(closed({"a", "<unk>"}), "a  x a") == std::vector<int64_t>{0, 1, 0});
  CHECK(closed({"a", "<unk>"}).decode({0, 1, 0}) == "a <unk> a");
  check_error(error_of([&] { closed({"a"}).encode("a x"); }),
              "encode: the word \"x\" is not in the vocabulary");
  check_error(error_of([] { Words(VocabularyTable({"a"}), {.byte_fallback = true, .blanks = false}); }),
              "no token <0x00> for a byte");
  check_error(error_of([] { Words(VocabularyTable({"a"}), {.byte_fallback = true}); }),
              "blanks between the bytes");

  const PipelineTokenizer whole = whole_words({"b a, b", "it's\ta b"}, 2);
  CHECK(whole.size() == 2);  // a occurs once, and "a," once
  CHECK(ids_of(whole, " b  a, b") == std::vector<int64_t>{1, 0, 1});
  CHECK(whole_words({"b a", "a"}).token(1) == "a");
  CHECK(ids_of(*tokenizer_from_json(whole.to_json(), "words"), "b x b") == std::vector<int64_t>{1, 0, 1});
  check_error(error_of([] { whole_words({"a"}, 0); }), "whole_words: least is 0, wanted at least 1");
}

TEST_CASE("added tokens are found before the split: the longest, with their white space, where allowed") {
  const PipelineTokenizer tokenizer(
      {.normalizer = Normalizer({{Normalization::Kind::lowercase}}),
       .splitter = Splitter({{Pattern("."), Remains::all}}),
       .model = std::make_shared<Words>(VocabularyTable({"a", " ", "<unk>"})),
       .added = {{.id = 3, .text = "<x>"},
                 {.id = 4, .text = "<x><x>"},
                 {.id = 5, .text = "LOUD", .special = false, .normalized = true},
                 {.id = 6, .text = "Soft", .special = false},
                 {.id = 7, .text = "<m>", .strip_left = true, .strip_right = true}}});
  using Ids = std::vector<int64_t>;
  CHECK(ids_of(tokenizer, "a<x><x><x>", SpecialTokens::as_tokens) == Ids{0, 4, 3});
  CHECK(ids_of(tokenizer, "a<x>") == Ids{0, 2, 2, 2});
  CHECK(ids_of(tokenizer, "loudaLouD") == Ids{5, 0, 5});
  CHECK(ids_of(tokenizer, "SoftaLOUDsoft") == Ids{6, 0, 5, 2, 2, 2, 2});
  CHECK(ids_of(tokenizer, "a \u3000\n<m> \u00a0 a", SpecialTokens::as_tokens) == Ids{0, 7, 0});
  CHECK(ids_of(tokenizer, " <x> ", SpecialTokens::as_tokens) == Ids{1, 3, 1});
  CHECK(tokenizer.special_tokens() == Ids{3, 4, 7});
  const auto with = [](AddedToken token) {
    return error_of([&] {
      PipelineTokenizer({.model = std::make_shared<Words>(VocabularyTable({"a", "b"})), .added = {token}});
    });
  };
  check_error(with({.id = 3, .text = "x"}), "the added token x has the id 3, wanted 2");
  check_error(with({.id = 0, .text = "b"}), "the added token b has the id 0, wanted 1");
  check_error(with({.id = 2, .text = ""}), "is empty");
  check_error(with({.id = 2, .text = "\xff"}), "is not valid UTF-8");
}

TEST_CASE("training refuses what it cannot do") {
  check_error(error_of([] { train_bpe("a", {.vocabulary = 256, .special = {"<s>"}}); }),
              "vocabulary is 256, wanted at least the 256 bytes and 1 special tokens");
  check_error(error_of([] { train_bpe("", {}); }), "train_bpe: the text is empty");
  check_error(error_of([] { train_bpe("a", {.least_count = 0}); }), "least_count is 0");
  check_error(error_of([] { train_bpe("a", {.pattern = "("}); }), "Pattern: ( is not a regular expression");
  check_error(error_of([] { train_bpe("a", {.special = {"x", "x"}}); }), "x occurs twice");
  check_error(error_of([] { train_words("a", 255); }), "vocabulary is 255");
  const VocabularyTable abc({"a", "b", "ab"});
  check_error(error_of([&] {
                Bpe(abc, {{0, 3, 2}});
              }),
              "Bpe: merge 0 joins 0 and 3 to 2, wanted tokens in [0, 3)");
  check_error(error_of([&] { Bpe(abc, {{1, 0, 2}}); }), "merge 0 joins \"b\" and \"a\" to \"ab\"");
  check_error(error_of([&] {
                Bpe(abc, {{0, 1, 2}, {0, 1, 2}});
              }),
              "merge 1 joins \"a\" and \"b\", as an earlier");
  std::vector<int32_t> ids;
  check_error(error_of([&] { Bpe(abc, {}).append_ids("az", ids); }), "no token for the byte 0x7A");
}

TEST_CASE("tokenizers of other programs give the ids that these programs give") {
  const auto folder = source_directory() / "tests/data/tokenizer_cases";
  std::map<std::string, std::vector<std::unique_ptr<Tokenizer>>> tokenizers;
  for (const char* name : {"gpt2", "normalized", "llama", "bert", "words"}) {
    auto& both = tokenizers[name];
    both.push_back(load_tokenizer((folder / (std::string(name) + ".json")).string()));
    both.push_back(tokenizer_from_json(both[0]->to_json(), name));  // as we write it
  }
  const Json cases = read_json(folder / "cases.json");
  CHECK(cases.size() == 510);
  for (const Json& c : cases) {
    INFO(c.dump());
    const auto special = c.at("special_as_text") ? SpecialTokens::as_text : SpecialTokens::as_tokens;
    const std::vector<int64_t> expected = c.at("ids"), with_ends = c.at("with_ends");
    for (const auto& tokenizer : tokenizers.at(c.at("tokenizer"))) {
      const std::string text = c.at("text");
      const Tokens ids = tokenizer->encode(text, special);
      CHECK(std::vector<int64_t>(ids.begin(), ids.end()) == expected);
      const Tokens ends = dynamic_cast<const PipelineTokenizer&>(*tokenizer).with_ends(ids);
      CHECK(std::vector<int64_t>(ends.begin(), ends.end()) == with_ends);
      CHECK(tokenizer->decode(ids) == c.at("decoded"));
    }
  }
}
