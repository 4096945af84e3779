// Beam search against its definition, without a state, and against the best of all sequences.
#include "nn/generation/beam_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "core/random.h"
#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "ops/softmax.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/models/bigram.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;
using Text = std::vector<int64_t>;

namespace {

/// A model whose next token depends on the text, and is seldom certain.
Gpt decided(GptOptions options) {
  options.tied = false;
  if (!parse_mixer(options.mixer).base->attention) options.positions = Positions::none;
  Gpt model(options);
  for (Parameter& p : model.parameters()) {
    if (p.shape().rank() == 1) continue;
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.4, g));
  }
  model.eval();
  return model;
}

std::vector<std::string> all_mixers() {
  std::vector<std::string> all = test::mechanisms();
  for (const std::string& name : test::other_mixers()) all.push_back(name);
  return all;
}

/// The log-probabilities of the token after a text, by a pass over all of it.
std::vector<double> next_of(const LanguageModel& model, const Text& text) {
  const Tape::Pause pause;
  const Tensor logits = model.forward(index_tensor(text, {1, static_cast<int64_t>(text.size())}));
  return log_softmax(select(select(logits, 1, static_cast<int64_t>(text.size()) - 1), 0, 0)).values();
}

double score_of(double log_probability, size_t length, const BeamOptions& o) {
  const auto n = static_cast<double>(length);
  return log_probability /
         std::pow(o.length_penalty == LengthPenalty::power ? n : (5 + n) / 6, o.length_power);
}

bool higher(const BeamText& x, const BeamText& y) { return x.score > y.score; }

/// Beam search by its definition: to the last step, one prompt at a time, without a state.
std::vector<BeamText> plain(const LanguageModel& model, const Text& prompt, int64_t count,
                            const BeamOptions& o, const Text& stop) {
  std::vector<BeamText> beams = {{prompt, 0, 0, false}}, results;
  for (int64_t step = 1; step <= count; ++step) {
    std::vector<BeamText> all;
    for (const BeamText& beam : beams) {
      const std::vector<double> next = next_of(model, beam.tokens);
      for (size_t token = 0; token < next.size(); ++token) {
        BeamText longer = beam;
        longer.tokens.push_back(static_cast<int64_t>(token));
        longer.log_probability += next[token];
        longer.score = score_of(longer.log_probability, static_cast<size_t>(step), o);
        longer.ended = std::find(stop.begin(), stop.end(), token) != stop.end();
        all.push_back(longer);
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const BeamText& x, const BeamText& y) {
      return x.log_probability > y.log_probability;
    });
    beams.clear();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].ended && i < static_cast<size_t>(o.beam)) results.push_back(all[i]);
      if (!all[i].ended && static_cast<int64_t>(beams.size()) < o.beam) beams.push_back(all[i]);
    }
  }
  results.insert(results.end(), beams.begin(), beams.end());
  std::stable_sort(results.begin(), results.end(), higher);
  if (static_cast<int64_t>(results.size()) > o.beam) results.resize(static_cast<size_t>(o.beam));
  return results;
}

void check_same(const std::vector<BeamText>& got, const std::vector<BeamText>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CHECK(got[i].tokens == want[i].tokens);
    CHECK(got[i].ended == want[i].ended);
    CHECK(std::abs(got[i].log_probability - want[i].log_probability) <= 2e-4);
    CHECK(std::abs(got[i].score - want[i].score) <= 2e-4);
  }
}

/// All continuations of at most `count` tokens, the best first.
void enumerate(const LanguageModel& model, const BeamText& begin, size_t prompt, int64_t count,
               const BeamOptions& o, int64_t end, std::vector<BeamText>& all) {
  const std::vector<double> next = next_of(model, begin.tokens);
  for (size_t token = 0; token < next.size(); ++token) {
    BeamText longer = begin;
    longer.tokens.push_back(static_cast<int64_t>(token));
    longer.log_probability += next[token];
    longer.score = score_of(longer.log_probability, longer.tokens.size() - prompt, o);
    longer.ended = static_cast<int64_t>(token) == end;
    if (longer.ended || count == 1)
      all.push_back(longer);
    else
      enumerate(model, longer, prompt, count - 1, o, end, all);
  }
}

}  // namespace

TEST_CASE("one beam is greedy, within the context and beyond it, for every mixer") {
  for (const std::string& name : all_mixers()) {
    INFO(name);
    Gpt model = decided(test::tiny_gpt(name));
    for (const int64_t count : {3, 14}) {
      const auto found = beam_search(model, {{3, 1}}, count, {.beam = 1});
      REQUIRE(found[0].size() == 1);
      CHECK(found[0][0].tokens == generate(model, {3, 1}, count, {.temperature = 0}));
      CHECK_FALSE(found[0][0].ended);
    }
  }
}

TEST_CASE("beams with a reordered state are those of the definition, which has no state, for every mixer") {
  int ended = 0, crossed = 0;
  for (const std::string& name : all_mixers()) {
    INFO(name);
    Gpt model = decided(test::tiny_gpt(name));
    const BeamOptions options = {.beam = 3, .length_power = 0.8};
    for (const Text& prompt : {Text{3, 1}, Text{7}, Text{5, 0, 2}}) {
      const auto want = plain(model, prompt, 5, options, {0, 7});
      check_same(beam_search(model, {prompt}, 5, options, {.stop = {.tokens = {0, 7}}})[0], want);
      for (const BeamText& text : want) ended += text.ended ? 1 : 0;
      const auto greedy = generate(model, prompt, 5, {.temperature = 0}, {.stop = {.tokens = {0, 7}}});
      crossed += want[0].tokens == greedy ? 0 : 1;
    }
  }
  CHECK(ended >= 30);
  CHECK(crossed >= 10);
}

TEST_CASE("beams for all sequences find the best of them, in order") {
  for (const std::string name : {"standard", "lstm"}) {
    GptOptions sizes = test::tiny_gpt(name);
    sizes.vocabulary = 3;
    Gpt model = decided(sizes);
    for (const BeamOptions& options :
         {BeamOptions{.beam = 81, .length_power = 0}, BeamOptions{.beam = 81, .length_power = 1},
          BeamOptions{.beam = 81, .length_power = 0.7, .length_penalty = LengthPenalty::gnmt}}) {
      std::vector<BeamText> all;
      enumerate(model, {{0, 1}, 0, 0, false}, 2, 4, options, 2, all);
      CHECK(all.size() == 1 + 2 + 4 + 8 * 3);
      std::stable_sort(all.begin(), all.end(), higher);
      const auto found = beam_search(model, {{0, 1}}, 4, options, {.stop = {.tokens = {2}}})[0];
      check_same(found, all);
    }
  }
}

TEST_CASE("the length penalty decides between a short and a long text, by numbers that a hand computes") {
  // After 0: the end (token 2) with 0.4, token 1 with 0.6. After 1: 1 with 0.6, the end with 0.4.
  const double never = -INFINITY;
  test::Bigram model(
      tensor({never, std::log(0.6), std::log(0.4), never, std::log(0.6), std::log(0.4), 0, 0, 0}, {3, 3},
             DType::float64));
  const auto best = [&](const BeamOptions& o) {
    return beam_search(model, {{0}}, 3, o, {.stop = {.tokens = {2}}})[0][0];
  };
  const BeamText likely = best({.beam = 2, .length_power = 0}), mean = best({.beam = 2, .length_power = 1}),
                 gnmt = best({.beam = 2, .length_power = 1, .length_penalty = LengthPenalty::gnmt});
  CHECK(likely.tokens == Text{0, 2});
  CHECK(likely.ended);
  CHECK(likely.score == doctest::Approx(std::log(0.4)).epsilon(1e-12));
  CHECK(mean.tokens == Text{0, 1, 1, 1});
  CHECK_FALSE(mean.ended);
  CHECK(mean.log_probability == doctest::Approx(3 * std::log(0.6)).epsilon(1e-12));
  CHECK(mean.score == doctest::Approx(std::log(0.6)).epsilon(1e-12));
  CHECK(gnmt.tokens == Text{0, 2});  // ln 0.4 = −0.92 against 3·ln 0.6/(8/6) = −1.15
  CHECK(gnmt.score == doctest::Approx(std::log(0.4)).epsilon(1e-12));
}

TEST_CASE("an end ranks among the first beams or is dropped; of equals the lower beam and token come first") {
  // After 0: the end (token 1) with 0.4, 0 with 0.3, the end (token 2) with 0.2, 3 with 0.1.
  const double p = std::log(0.4), q = std::log(0.3), r = std::log(0.2), s = std::log(0.1);
  test::Bigram model(tensor({q, p, r, s, 0, 0, 0, 0, 0, 0, 0, 0, q, p, r, s}, {4, 4}, DType::float64));
  const auto found =
      beam_search(model, {{0}}, 2, {.beam = 2, .length_power = 0}, {.stop = {.tokens = {1, 2}}})[0];
  CHECK(found[0].tokens == Text{0, 1});
  // 0.3·0.4; token 2 alone, with 0.2, was third in the first step.
  CHECK(found[1].tokens == Text{0, 0, 1});
  // Most tokens end a text, so that those that go on are far down the list.
  Generator g(4);
  test::Bigram endings(randn({8, 8}, DType::float64, Device::cpu, 0, 2, g));
  for (const int64_t beam : {1, 2, 3})
    for (int64_t begin = 0; begin < 8; ++begin) {
      const BeamOptions options = {.beam = beam, .length_power = 0.5};
      const Text stop = {0, 1, 2, 3, 5, 6};
      check_same(beam_search(endings, {{begin}}, 4, options, {.stop = {.tokens = stop}})[0],
                 plain(endings, {begin}, 4, options, stop));
    }
  test::Bigram even(zeros({3, 3}));
  const auto equals = beam_search(even, {{2}}, 2, {.beam = 4})[0];
  REQUIRE(equals.size() == 4);
  const std::vector<Text> first = {{2, 0, 0}, {2, 0, 1}, {2, 0, 2}, {2, 1, 0}};
  for (size_t i = 0; i < 4; ++i) CHECK(equals[i].tokens == first[i]);
}

TEST_CASE("several prompts at once give the results of each alone, and those of the definition") {
  Gpt model = decided(test::tiny_gpt("rotary"));
  const std::vector<Text> prompts = {{3, 1}, {7}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {9, 9, 9}};
  const BeamOptions options = {.beam = 3};
  const BeamCall call = {.stop = {.tokens = {0, 5}}};
  for (const int64_t count : {4, 12}) {
    const auto together = beam_search(model, prompts, count, options, call);
    REQUIRE(together.size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i)
      check_same(together[i], beam_search(model, {prompts[i]}, count, options, call)[0]);
  }
  check_same(beam_search(model, prompts, 4, options, call)[1], plain(model, {7}, 4, options, {0, 5}));
  CHECK(beam_search(model, {}, 3).empty());
}

TEST_CASE("each prompt's beams read its own row of the memory") {
  Generator g(1);
  test::Bigram model(randn({5, 5}, DType::float32, Device::cpu, 0, 1, g));
  const Memory memory = {.source = randn({3, 2, 5}, DType::float32, Device::cpu, 0, 2, g),
                         .lengths = index_tensor(Text{1, 2, 2}, {3})};
  const BeamOptions options = {.beam = 4};
  const auto together = beam_search(model, {{1}, {1}, {1}}, 5, options, {{.tokens = {0}}, memory});
  for (size_t i = 0; i < 3; ++i)
    check_same(together[i],
               beam_search(model, {{1}}, 5, options, {{.tokens = {0}}, test::row_of(memory, i)})[0]);
  CHECK(together[0][0].tokens != together[1][0].tokens);
}

TEST_CASE(
    "a prompt leaves as soon as nothing can change its results, and a stop text ends a beam as a token does") {
  test::Bigram model(tensor({0, 1, 2, 0, 1, 3, 2, 0, 1}, {3, 3}));
  const BeamOptions options = {.beam = 2, .length_power = 0.5};
  const auto found = beam_search(model, {{0}, {1}}, 200, options, {.stop = {.tokens = {2}}});
  const int passes = model.passes;
  CHECK(passes < 12);
  for (size_t i = 0; i < 2; ++i) {
    check_same(found[i], plain(model, {static_cast<int64_t>(i)}, 30, options, {2}));
    for (const BeamText& text : found[i]) CHECK(text.ended);
  }
  const Stop stop = {.texts = {"c"},
                     .text_of = [](int64_t t) { return std::string(1, static_cast<char>('a' + t)); }};
  const auto same = beam_search(model, {{0}, {1}}, 200, options, {.stop = stop});
  for (size_t i = 0; i < 2; ++i) check_same(same[i], found[i]);
}

TEST_CASE("when every continuation ends, the search ends; tokens of probability 0 are never found") {
  test::Bigram model(tensor({1, 2, -INFINITY, 0, 0, 0, 0, 0, 0}, {3, 3}));
  const auto found = beam_search(model, {{0}}, 5, {.beam = 4}, {.stop = {.tokens = {0, 1, 2}}});
  REQUIRE(found[0].size() == 2);
  CHECK(found[0][0].tokens == Text{0, 1});
  CHECK(found[0][1].tokens == Text{0, 0});
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    test::Bigram broken(tensor({0, bad, 0, 0}, {2, 2}));
    CHECK_THROWS_WITH_AS(beam_search(broken, {{0}}, 1), doctest::Contains("logits contain NaN or +∞"), Error);
  }
}

TEST_CASE(
    "threads that search with one model at a time find what one thread finds, and leave its mode alone") {
  Gpt model = decided(test::tiny_gpt());
  model.train();
  const std::vector<Text> prompts = {{3, 1}, {7}};
  const auto want = beam_search(model, prompts, 12);
  std::vector<std::vector<std::vector<BeamText>>> got(4);
  std::vector<std::thread> threads;
  for (auto& found : got) threads.emplace_back([&] { found = beam_search(model, prompts, 12); });
  for (std::thread& t : threads) t.join();
  for (const auto& found : got)
    for (size_t i = 0; i < prompts.size(); ++i) check_same(found[i], want[i]);
  CHECK(model.training());
}

TEST_CASE("a senseless search is refused") {
  Gpt model(test::tiny_gpt());
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 0), doctest::Contains("beam_search: 0 tokens are wanted"),
                       Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 1, {.beam = 0}), "beam_search: beam is 0, wanted at least 1",
                       Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 1, {.beam = 1'000'000'000'000}),
                       doctest::Contains("beam_search: 1000000000000 beams"), Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 1, {.length_power = -1}),
                       doctest::Contains("beam_search: length-power is -1"), Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}, {}}, 1),
                       doctest::Contains("beam_search: prompt 2 of 2 is empty"), Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 1, {}, {.stop = {.tokens = {11}}}),
                       "beam_search: the stop token 11 is outside [0, 11)", Error);
  CHECK_THROWS_WITH_AS(beam_search(model, {{1}}, 1, {}, {.memory = {.source = ones({2, 1, 8})}}),
                       doctest::Contains("a row for each prompt"), Error);
}
