// Texts as the input of an encoder, and the masking of their tokens.
#include "nn/data/masking.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "nn/data/joined_texts.h"
#include "nn/text/word_piece.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::error_of;

namespace {

using Ids = std::vector<int64_t>;

PipelineTokenizer tokenizer() {
  std::vector<std::string> tokens(kBertTokens.begin(), kBertTokens.end());
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  return bert_tokenizer(tokens);
}

Ids ids_of(const Tensor& x) {
  Ids ids;
  for (const double id : x.values()) ids.push_back(static_cast<int64_t>(id));
  return ids;
}

/// Rows of 20 letters between [CLS] and [SEP], but for the last one, which has 4.
Batch letters(int64_t rows) {
  const PipelineTokenizer letters = tokenizer();
  std::vector<JoinedTexts> all(static_cast<size_t>(rows),
                               join_texts(letters, "a b c d e f g h i j k l m n o p q r s t", {}, 30));
  all.back() = join_texts(letters, "a b c d", {}, 30);
  return joined_batch(all, 0);
}

}  // namespace

TEST_CASE("one text or two between the special tokens, and the longer one is cut first") {
  const PipelineTokenizer bert = tokenizer();  // 2 [CLS], 3 [SEP], 5 a
  const auto joined = [&](const char* a, std::optional<std::string_view> b, int64_t longest) {
    return join_texts(bert, a, b, longest);
  };
  CHECK(joined("a b", {}, 9).ids == Ids{2, 5, 6, 3});
  CHECK(joined("a b", {}, 9).segments == Ids{0, 0, 0, 0});
  CHECK(joined("a b", "c", 9).ids == Ids{2, 5, 6, 3, 7, 3});
  CHECK(joined("a b", "c", 9).segments == Ids{0, 0, 0, 0, 1, 1});
  CHECK(joined("a b c", {}, 4).ids == Ids{2, 5, 6, 3});
  CHECK(joined("a b c d", "e f", 7).ids == Ids{2, 5, 6, 3, 9, 10, 3});
  CHECK(joined("a", "b c d", 6).ids == Ids{2, 5, 3, 6, 7, 3});
  CHECK(error_of([&] { joined("a", "b", 4); }).find("no room for two texts next to 3 special tokens") !=
        std::string::npos);
  CHECK_FALSE(error_of([&] { joined("a", {}, 2); }).empty());

  const std::vector<JoinedTexts> rows = {joined("a", "b", 9), joined("a b", {}, 9)};
  const Batch batch = joined_batch(rows, 1);
  REQUIRE(batch.tensors.size() == 3);
  CHECK(batch.tokens == 2);
  CHECK(ids_of(batch.tensors[0]) == Ids{2, 5, 3, 6, 3, 2, 5, 6, 3, 1});
  CHECK(ids_of(batch.tensors[1]) == Ids{5, 4});
  CHECK(ids_of(batch.tensors[2]) == Ids{0, 0, 0, 1, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("a share of the ordinary tokens is chosen: masked, replaced, or left, with its target") {
  const PipelineTokenizer bert = tokenizer();
  const TokenMasking mask(bert, 7);
  const Batch plain = letters(400);
  const Ids before = ids_of(plain.tensors[0]);
  int64_t masked = 0, kept = 0, replaced = 0;
  std::map<int64_t, int64_t> of_row;
  const Batch hidden = mask(plain, 3);
  REQUIRE(hidden.tensors.size() == 5);
  const Ids after = ids_of(hidden.tensors[0]), places = ids_of(hidden.tensors[3]),
            targets = ids_of(hidden.tensors[4]);
  CHECK(hidden.tokens == 399 * 3 + 1);  // of 20 letters 3 are chosen, and of 4 letters 1
  REQUIRE(std::ssize(places) == hidden.tokens);
  Ids restored = after;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto at = static_cast<size_t>(places[i]);
    ++of_row[places[i] / 22];
    restored[at] = targets[i];
    CHECK(before[at] >= 5);  // no special token
    CHECK(after[at] >= 4);
    (after[at] == 4 ? masked : after[at] == before[at] ? kept : replaced) += 1;
  }
  CHECK(restored == before);  // the targets, and nothing else has changed
  CHECK(of_row.size() == 400);
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(places.size());
  };
  CHECK(std::abs(share(masked) - 0.8) < 0.03);
  CHECK(std::abs(share(kept) - 0.1 - 0.1 / 26) < 0.025);  // a random token may be the same
  CHECK(std::abs(share(replaced) - 0.1 * 25 / 26) < 0.025);
  CHECK(ids_of(hidden.tensors[1]) == ids_of(plain.tensors[1]));
}

TEST_CASE("the choice depends on the seed and the number of the batch, and each option has an effect") {
  const PipelineTokenizer bert = tokenizer();
  const Batch plain = letters(30);
  const auto hidden = [&](uint64_t seed, int64_t index, MaskingOptions options = {}) {
    return TokenMasking(bert, seed, std::move(options))(plain, index);
  };
  const auto first = [&](const Batch& batch) { return ids_of(batch.tensors[0]); };
  CHECK(first(hidden(1, 5)) == first(hidden(1, 5)));
  CHECK(first(hidden(1, 5)) != first(hidden(1, 6)));
  CHECK(first(hidden(1, 5)) != first(hidden(2, 5)));
  CHECK(hidden(1, 5, {.share = 0.5}).tokens == 29 * 10 + 2);
  CHECK(hidden(1, 5, {.share = 1}).tokens == 29 * 20 + 4);
  CHECK(first(hidden(1, 5, {.masked = 0, .replaced = 0})) == first(plain));
  const Ids all_masked = first(hidden(1, 5, {.share = 1, .masked = 1, .replaced = 0, .mask = "z"}));
  CHECK(std::count(all_masked.begin(), all_masked.end(), 30) == 29 * 20 + 4);
  const Ids replaced = first(hidden(1, 5, {.share = 1, .masked = 0, .replaced = 1}));
  CHECK(std::count(replaced.begin(), replaced.end(), 4) == 0);
  for (const auto& [options, part] :
       {std::pair<MaskingOptions, const char*>{{.share = 0}, "share is 0, wanted in (0, 1]"},
        {{.masked = 0.8, .replaced = 0.3}, "masked is 0.8 and replaced 0.3"},
        {{.mask = "<mask>"}, "no token <mask>"}})
    CHECK(error_of([&, o = options] { TokenMasking(bert, 1, o); }).find(part) != std::string::npos);
  const TokenMasking mask(bert, 1);
  const auto batch = [](const Ids& ids) { return Batch{{index_tensor(ids, {1, std::ssize(ids)})}, 1}; };
  CHECK(error_of([&] {
          mask(batch({2, 3, 0}), 4);
        }).find("batch 4 has only special tokens") != std::string::npos);
  CHECK(error_of([&] {
          mask(batch({2, 31}), 0);
        }).find("has the id 31, and the vocabulary 31") != std::string::npos);
  CHECK(error_of([&] { mask({{zeros({2, 2})}, 1}, 0); }).find("int64 ids [B, T]") != std::string::npos);
}
