// Tokens and texts that end a generated text, and texts that are printed while they arrive.
#include "nn/generation/stop.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/random.h"
#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// Token t is the letter t, and token 9 and 10 are two letters.
std::string letters(int64_t token) {
  if (token == 9) return "ab";
  return token == 10 ? "b." : std::string(1, static_cast<char>('a' + token));
}

std::string joined(const std::vector<int64_t>& tokens, size_t begin = 0) {
  std::string text;
  for (size_t i = begin; i < tokens.size(); ++i) text += letters(tokens[i]);
  return text;
}

}  // namespace

TEST_CASE("a text ends with the token that completes a stop text, wherever that begins in the continuation") {
  const Stop stop = {.tokens = {7}, .texts = {"bab", "b.a"}, .text_of = letters};
  CHECK(stop.ends({}, 0, 7));
  CHECK_FALSE(stop.ends({1, 0}, 0, 0));
  CHECK(stop.ends({1, 0}, 0, 1));      // b a b
  CHECK(stop.ends({1}, 0, 9));         // b ab
  CHECK(stop.ends({10}, 0, 0));        // b. a
  CHECK(stop.ends({10}, 0, 9));        // b. ab: the stop text ends within the token
  CHECK_FALSE(stop.ends({10}, 1, 0));  // the b. belongs to the prompt
  CHECK_FALSE(stop.ends({1, 0}, 1, 1));
  CHECK(stop.ends({5, 1, 0}, 1, 1));
  CHECK_FALSE(Stop{}.ends({1, 0}, 0, 1));
  CHECK_THROWS_WITH_AS((Stop{.tokens = {11}}.validate("op", 11)), "op: the stop token 11 is outside [0, 11)",
                       Error);
  CHECK_THROWS_WITH_AS((Stop{.texts = {"a", ""}, .text_of = letters}.validate("op", 11)),
                       doctest::Contains("op: a stop text is empty"), Error);
  CHECK_THROWS_WITH_AS((Stop{.texts = {"a"}}.validate("op", 11)), doctest::Contains("without text_of"),
                       Error);
  CHECK_THROWS_WITH_AS(TextStream({""}), doctest::Contains("a stop text is empty"), Error);
}

TEST_CASE("a stream of pieces releases exactly the text before the first stop text") {
  Generator random(5);
  int stopped = 0, held = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::string> stops = {"aab", "ba", "cc"};
    TextStream stream(stops);
    std::string all, printed;
    for (int i = 0; i < 4; ++i) {
      std::string piece;
      for (int64_t n = random.next_below(4); n > 0; --n)
        piece += static_cast<char>('a' + random.next_below(random.next_below(2) == 0 ? 2 : 3));
      all += piece;
      printed += stream.add(piece);
      size_t end = all.size();
      for (const std::string& stop : stops) end = std::min(end, all.find(stop));
      REQUIRE(stream.stopped() == (end < all.size()));
      // What may begin a stop text is held, and nothing else.
      REQUIRE(printed == all.substr(0, printed.size()));
      REQUIRE(printed.size() <= end);
      if (stream.stopped()) REQUIRE(printed.size() == end);
      const std::string rest = all.substr(printed.size());
      const auto begins = [&](const std::string& stop) { return stop.starts_with(rest); };
      if (!stream.stopped()) REQUIRE(std::any_of(stops.begin(), stops.end(), begins));
      held += rest.empty() ? 0 : 1;
    }
    stopped += stream.stopped() ? 1 : 0;
    CHECK((stream.stopped() ? stream.rest() == "" : printed + stream.rest() == all));
  }
  CHECK(stopped > 50);
  CHECK(stopped < 450);
  CHECK(held > 50);
}

TEST_CASE("generation ends at a stop text and streams each token as it is chosen") {
  Gpt model(test::tiny_gpt());
  for (Parameter& p : model.parameters()) {
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.5, g));
  }
  int ended = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const SamplingOptions sampling = {.temperature = 3, .seed = seed};
    const auto full = generate(model, {1, 0}, 30, sampling);
    std::vector<int64_t> streamed = {1, 0};
    GenerateCall call = {.stop = {.texts = {"ab", "ba", "."}, .text_of = letters}};
    call.on_token = [&](int64_t prompt, int64_t token) {
      CHECK(prompt == 0);
      streamed.push_back(token);
    };
    const auto cut = generate(model, {1, 0}, 30, sampling, call);
    CHECK(cut == streamed);
    CHECK(cut == std::vector<int64_t>(full.begin(), full.begin() + std::ssize(cut)));
    const auto found = [&](const std::string& text) {
      return text.find("ab") != std::string::npos || text.find("ba") != std::string::npos ||
             text.find('.') != std::string::npos;
    };
    const std::vector<int64_t> before(cut.begin(), cut.end() - 1);
    CHECK_FALSE(found(joined(before, 2)));
    if (cut.size() == full.size()) continue;
    CHECK(found(joined(cut, 2)));
    ++ended;
  }
  CHECK(ended >= 5);
  std::vector<std::vector<int64_t>> rows = {{1}, {2, 3}};
  const auto texts = generate_batch(
      model, rows, 6, {.temperature = 2},
      {.on_token = [&](int64_t i, int64_t token) { rows[static_cast<size_t>(i)].push_back(token); }});
  CHECK(texts == rows);
  CHECK_THROWS_WITH_AS(generate(model, {1}, 2, {}, {.stop = {.tokens = {-1}}}),
                       "generate: the stop token -1 is outside [0, 11)", Error);
}
