// Several prompts continued at once against each continued alone.
#include <doctest/doctest.h>

#include <algorithm>

#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "tests/nn/generation/lively.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/models/bigram.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;
using Prompts = std::vector<std::vector<int64_t>>;

namespace {

constexpr SamplingOptions kGreedy = {.temperature = 0};

Prompts one_by_one(Gpt& model, const Prompts& prompts, int64_t count, SamplingOptions options,
                   const std::vector<int64_t>& stop = {}) {
  Prompts all;
  for (const auto& prompt : prompts) {
    all.push_back(generate(model, prompt, count, options, {.stop = {.tokens = stop}}));
    ++options.seed;
  }
  return all;
}

const Prompts kPrompts = {{3, 1}, {7}, {1, 2, 3, 4, 5}, {9, 9, 9}};

}  // namespace

TEST_CASE("a batch of prompts of different lengths gives the greedy tokens of each, for every attention") {
  std::vector<std::string> names = test::mechanisms();
  // Scores that are no q·k of the rotated channels alone
  for (const char* pair : {"rotary+temperature", "rotary+luong_general", "rotary+additive",
                           "performer+rotary", "differential+rotary+temperature"})
    names.emplace_back(pair);
  for (const std::string& name : names) {
    INFO(name);
    for (const Positions positions : {Positions::automatic, Positions::sinusoidal, Positions::none}) {
      GptOptions options = test::tiny_gpt(name);
      options.positions = positions;
      Gpt model = test::lively(options);
      // Within the context, and beyond it, where each text drops its older half at another step.
      for (const int64_t count : {3, 20})
        CHECK(generate_batch(model, kPrompts, count, kGreedy) == one_by_one(model, kPrompts, count, kGreedy));
    }
  }
}

TEST_CASE("a batch of prompts gives the greedy tokens of each, for a universal Transformer") {
  GptOptions options = test::tiny_gpt();
  options.universal = true;
  options.layers = 4;
  Gpt model = test::lively(options);
  for (const int64_t count : {3, 20})
    CHECK(generate_batch(model, kPrompts, count, kGreedy) == one_by_one(model, kPrompts, count, kGreedy));
}

TEST_CASE("prompts longer than the context and groups of key heads are continued in a batch as alone") {
  GptOptions options = test::tiny_gpt("rotary");
  options.key_heads = 1;
  Gpt model = test::lively(options);
  const Prompts prompts = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  CHECK(generate_batch(model, prompts, 12, kGreedy) == one_by_one(model, prompts, 12, kGreedy));
}

TEST_CASE("a prompt that has reached a token to stop at leaves the batch; the others go on as alone") {
  GptOptions options = test::tiny_gpt();
  options.context = 32;
  Gpt model = test::lively(options);
  int uneven = 0;  // batches that go on for several steps after a text has ended
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SamplingOptions sampling = {.temperature = 3, .seed = seed};
    const Prompts want = one_by_one(model, kPrompts, 20, sampling, {0, 4});
    CHECK(generate_batch(model, kPrompts, 20, sampling, {.stop = {.tokens = {0, 4}}}) == want);
    std::vector<size_t> steps;
    for (size_t i = 0; i < want.size(); ++i) steps.push_back(want[i].size() - kPrompts[i].size());
    const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
    if (*least > 0 && *most > *least + 2) ++uneven;
  }
  CHECK(uneven >= 5);
}

TEST_CASE("each prompt of a batch draws with a seed of its own") {
  Gpt model = test::lively(test::tiny_gpt());
  const SamplingOptions options = {.temperature = 2, .seed = 5};
  CHECK(generate_batch(model, kPrompts, 6, options) == one_by_one(model, kPrompts, 6, options));
  const Prompts twins = generate_batch(model, {{1}, {1}}, 20, options);
  CHECK(twins[0] != twins[1]);
}

TEST_CASE("other mixers take padding, or refuse texts of different lengths") {
  for (const std::string& name : test::other_mixers()) {
    INFO(name);
    GptOptions options = test::tiny_gpt(name);
    options.positions = Positions::none;
    Gpt model = test::lively(options);
    const Prompts prompts = {{1, 2}, {5, 3}, {8, 8}};
    CHECK(generate_batch(model, prompts, 12, kGreedy) == one_by_one(model, prompts, 12, kGreedy));
    if (parse_mixer(name).base->padding)
      CHECK(generate_batch(model, kPrompts, 12, kGreedy) == one_by_one(model, kPrompts, 12, kGreedy));
    else
      CHECK_THROWS_WITH_AS(generate_batch(model, {{1, 2}, {1}}, 2, kGreedy),
                           doctest::Contains("prompts of one length"), Error);
  }
}

TEST_CASE("each prompt reads its own row of the memory, also after others have left the batch") {
  test::Bigram model(randn({11, 11}, DType::float32, Device::cpu, 0, 2, default_generator()));
  const Memory memory = {.source = randn({4, 3, 11}, DType::float32, Device::cpu, 0, 2, default_generator()),
                         .lengths = index_tensor(std::vector<int64_t>{3, 1, 2, 1}, {4})};
  Prompts want;
  for (size_t b = 0; b < kPrompts.size(); ++b)
    want.push_back(generate(model, kPrompts[b], 9, kGreedy, {{.tokens = {0, 4}}, test::row_of(memory, b)}));
  CHECK(generate_batch(model, kPrompts, 9, kGreedy, {{.tokens = {0, 4}}, memory}) == want);
  CHECK(generate_batch(model, kPrompts, 9, kGreedy, {.stop = {.tokens = {0, 4}}}) != want);
}

TEST_CASE("no prompts give no texts, and an empty prompt is named") {
  Gpt model(test::tiny_gpt());
  CHECK(generate_batch(model, {}, 3).empty());
  CHECK(generate_batch(model, {{1}, {2, 3}}, 0) == Prompts{{1}, {2, 3}});
  CHECK_THROWS_WITH_AS(generate_batch(model, {{1}, {}, {2}}, 1),
                       "generate: prompt 2 of 3 is empty, wanted at least one token", Error);
  CHECK_THROWS_WITH_AS(
      generate_batch(model, {{1}, {2}}, 1, {}, {.memory = {.source = ones({3, 2, 8})}}),
      "generate: the memory is float32[3, 2, 8] on cpu, wanted [2, S, C], a row for each prompt", Error);
  CHECK_THROWS_WITH_AS(
      generate(model, {1}, 1, {}, {.memory = {.source = ones({1, 2, 8}), .lengths = ones({1})}}),
      doctest::Contains("the lengths of the memory are float32[1]"), Error);
  CHECK_THROWS_WITH_AS(generate_batch(model, {{1}}, -2), doctest::Contains("-2 tokens are wanted"), Error);
  CHECK_THROWS_WITH_AS(
      model.features(test::ids(2, 3), {.padding = index_tensor(std::vector<int64_t>{1}, {1})}),
      "BlockStack: the padding is int64[1] on cpu, wanted int64 [2], a number for each row", Error);
}
