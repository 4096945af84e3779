#include "nn/generation/generate.h"
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/view.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::tiny_gpt;

namespace {

/// The share of each token in `draws` draws.
std::vector<double> shares(const Tensor& logits, const SamplingOptions& o,
                           const std::vector<int64_t>& text = {}, int draws = 20000) {
  Generator generator(7);
  std::vector<double> count(static_cast<size_t>(logits.numel()));
  for (int i = 0; i < draws; ++i)
    count[static_cast<size_t>(sample_token(logits, o, generator, text))] += 1.0 / draws;
  return count;
}

/// The probabilities of the `kept` tokens at a temperature; 0 for the others.
std::vector<double> expected(const Tensor& logits, double temperature, const std::vector<size_t>& kept) {
  const auto x = logits.values();
  std::vector<double> p(x.size());
  double total = 0;
  for (size_t i : kept) total += p[i] = std::exp(x[i] / temperature);
  for (double& v : p) v /= total;
  return p;
}

/// The probabilities after all options, each by its definition.
std::vector<double> plain(const Tensor& logits, const SamplingOptions& o, const std::vector<int64_t>& text) {
  std::vector<double> x = logits.values();
  for (const int64_t token : std::set<int64_t>(text.begin(), text.end()))
    x[token] = x[token] > 0 ? x[token] / o.repetition_penalty : x[token] * o.repetition_penalty;
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return x[i] > x[j]; });
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(o.top_k)));
  const Tensor penalized = tensor(x, {static_cast<int64_t>(x.size())}, DType::float64);
  const std::vector<double> after_k = expected(penalized, o.temperature, order);
  double mass = 0;
  std::vector<size_t> kept;
  for (const size_t i : order) {
    if (mass < o.top_p) kept.push_back(i);
    mass += after_k[i];
  }
  std::erase_if(kept, [&](size_t i) { return after_k[i] < o.min_p * after_k[order[0]]; });
  return expected(penalized, o.temperature, kept);
}

void check_close(const std::vector<double>& got, const std::vector<double>& want, int draws = 20000) {
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("token ", i, ": ", got[i], " against ", want[i]);
    if (want[i] == 0) CHECK(got[i] == 0);
    CHECK(std::abs(got[i] - want[i]) <= 4.5 * std::sqrt(want[i] * (1 - want[i]) / draws) + 1e-12);
  }
}

}  // namespace

TEST_CASE("tokens come as often as temperature, top-k and top-p say") {
  const Tensor x = tensor({0, 3, 1, 2, -1});
  check_close(shares(x, {}), expected(x, 1, {0, 1, 2, 3, 4}));
  check_close(shares(x, {.temperature = 2.5}), expected(x, 2.5, {0, 1, 2, 3, 4}));
  check_close(shares(x, {.top_k = 3}), expected(x, 1, {1, 3, 2}));
  check_close(shares(x, {.top_k = 99}), expected(x, 1, {0, 1, 2, 3, 4}));
  // The probabilities are 0.64, 0.24, 0.09, 0.03 and 0.01 for tokens 1, 3, 2, 0, 4.
  check_close(shares(x, {.top_p = 0.7}), expected(x, 1, {1, 3}));
  check_close(shares(x, {.top_p = 0.9}), expected(x, 1, {1, 3, 2}));
  check_close(shares(x, {.top_k = 2, .top_p = 0.99}), expected(x, 1, {1, 3}));
  check_close(shares(x, {.top_p = 1e-9}), expected(x, 1, {1}));
  check_close(shares(x, {.temperature = 1e-3}), expected(x, 1, {1}));
}

TEST_CASE("top-p in a large vocabulary keeps the fewest tokens that suffice") {
  std::vector<double> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i * 7 % 5000] = -std::log(1.0 + static_cast<double>(i));  // probabilities ∝ 1/(1 + rank)
  double total = 0, mass = 0;
  for (int i = 1; i <= 5000; ++i) total += 1.0 / i;
  size_t kept = 0;
  while (mass < 0.6 * total) mass += 1.0 / static_cast<double>(++kept);
  Generator generator(2);
  const Tensor x = tensor(logits, {5000}, DType::float32);
  size_t lowest = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto token = static_cast<size_t>(sample_token(x, {.top_p = 0.6}, generator));
    const auto rank = static_cast<size_t>(std::lround(std::exp(-logits[token]))) - 1;
    REQUIRE(rank < kept);
    lowest = std::max(lowest, rank);
  }
  CHECK(lowest > kept * 9 / 10);
}

TEST_CASE(
    "min-p keeps the tokens with a share of the highest probability; a penalty lowers tokens of the text") {
  const Tensor x = tensor({0, 3, 1, 2, -1});  // relative to token 1: e^-3, 1, e^-2, e^-1, e^-4
  check_close(shares(x, {.min_p = 0.3}), expected(x, 1, {1, 3}));
  check_close(shares(x, {.min_p = 0.1}), expected(x, 1, {1, 3, 2}));
  check_close(shares(x, {.min_p = 1}), expected(x, 1, {1}));
  // The temperature applies before: e^(-3/2.5) is 0.301.
  check_close(shares(x, {.temperature = 2.5, .min_p = 0.3}), expected(x, 2.5, {0, 1, 2, 3}));
  check_close(shares(x, {.top_k = 2, .min_p = 0.1}), expected(x, 1, {1, 3}));
  const SamplingOptions doubled = {.repetition_penalty = 2};
  const Tensor after = tensor({0, 1.5, 1, 2, -2});  // tokens 1 and 4 are in the text, 1 twice
  check_close(shares(x, doubled, {1, 4, 1}), expected(after, 1, {0, 1, 2, 3, 4}));
  check_close(shares(x, {.repetition_penalty = 0.5}, {4}),
              expected(tensor({0, 3, 1, 2, -0.5}), 1, {0, 1, 2, 3, 4}));
  Generator g(1);
  CHECK(sample_token(x, {.temperature = 0, .repetition_penalty = 2}, g, {1}) == 3);
  CHECK(sample_token(x, {.temperature = 0, .repetition_penalty = 2}, g, {}) == 1);
}

TEST_CASE("all options together sample from what their plain definition keeps") {
  Generator random(11);
  for (int round = 0; round < 20; ++round) {
    const Tensor x = randn({9}, DType::float64, Device::cpu, 0, 2, random);
    const SamplingOptions o = {.temperature = 0.3 + 2 * random.next_uniform(),
                               .top_k = random.next_below(10),
                               .top_p = 0.5 + 0.5 * random.next_uniform(),
                               .min_p = 0.3 * random.next_uniform(),
                               .repetition_penalty = 0.5 + 2 * random.next_uniform()};
    const std::vector<int64_t> text = {random.next_below(9), random.next_below(9), random.next_below(9)};
    INFO("round ", round);
    check_close(shares(x, o, text, 4000), plain(x, o, text), 4000);
  }
}

TEST_CASE("greedy takes the first of the highest; hidden tokens never come; one token is always it") {
  Generator generator(1);
  CHECK(sample_token(tensor({1, 5, 5, 2}), {.temperature = 0}, generator) == 1);
  CHECK(sample_token(tensor({1, 5, 5, 2}), {.top_k = 1}, generator) == 1);
  CHECK(sample_token(tensor({-3}), {}, generator) == 0);
  const auto got = shares(tensor({-INFINITY, 0, -INFINITY, 0}), {});
  CHECK(got[0] + got[2] == 0);
  CHECK(shares(tensor({1000, 0, 999}), {})[1] == 0);  // no overflow
}

TEST_CASE("senseless sampling is refused") {
  Generator g(1);
  const Tensor x = tensor({1, 2});
  for (const SamplingOptions& o :
       {SamplingOptions{.temperature = -1}, SamplingOptions{.temperature = INFINITY},
        SamplingOptions{.top_k = -1}, SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = 1.5}})
    CHECK_THROWS_WITH_AS(sample_token(x, o, g), doctest::Contains("wanted a finite temperature"), Error);
  for (const SamplingOptions& o :
       {SamplingOptions{.min_p = -0.1}, SamplingOptions{.min_p = 1.1}, SamplingOptions{.min_p = NAN},
        SamplingOptions{.repetition_penalty = 0}, SamplingOptions{.repetition_penalty = INFINITY}})
    CHECK_THROWS_WITH_AS(sample_token(x, o, g), doctest::Contains("wanted min_p in [0, 1]"), Error);
  CHECK_THROWS_WITH_AS(sample_token(x, {.repetition_penalty = 2}, g, {2}),
                       "generate: the text has the token 2, outside [0, 2)", Error);
  CHECK_THROWS_WITH_AS(sample_token(tensor({1, NAN}), {}, g), doctest::Contains("token 1 is NaN"), Error);
  CHECK_THROWS_WITH_AS(sample_token(tensor({-INFINITY}), {}, g), doctest::Contains("highest logit is -inf"),
                       Error);
  CHECK_THROWS_WITH_AS(sample_token(zeros({2, 2}), {}, g), doctest::Contains("wanted [V]"), Error);
  Gpt model(tiny_gpt());
  CHECK_THROWS_WITH_AS(generate(model, {}, 1), doctest::Contains("prompt 1 of 1 is empty"), Error);
  CHECK_THROWS_WITH_AS(generate(model, {1}, -1), doctest::Contains("-1 tokens"), Error);
}

TEST_CASE("generated text depends on the seed alone and equals decoding without a cache") {
  Gpt model(tiny_gpt());
  for (Parameter& p : model.parameters()) {
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.5, g));
  }
  const auto a = generate(model, {1, 2}, 20, {.seed = 4}), b = generate(model, {1, 2}, 20, {.seed = 4});
  CHECK(a == b);
  CHECK(a.size() == 22);
  CHECK(generate(model, {1, 2}, 20, {.seed = 5}) != a);
  CHECK(model.training());
  // Within the context, every greedy token equals that of the full pass. A long prompt is cut to
  // its newest tokens.
  std::vector<int64_t> want = {3, 1};
  while (want.size() < 8) {
    const Tensor logits = model.forward(index_tensor(want, {1, static_cast<int64_t>(want.size())}));
    const auto x = logits.values();
    want.push_back(std::max_element(x.end() - 11, x.end()) - (x.end() - 11));
  }
  CHECK(generate(model, {3, 1}, 6, {.temperature = 0}) == want);
  const std::vector<int64_t> prompt = {9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto next = generate(model, prompt, 1, {.temperature = 0}).back();
  CHECK(next == generate(model, {prompt.end() - 8, prompt.end()}, 1, {.temperature = 0}).back());
}

TEST_CASE("a full state drops the older half of the context") {
  GptOptions options = tiny_gpt();
  options.tied = false;
  Gpt model(options);
  for (Parameter& p : model.parameters()) {
    if (p.shape().rank() == 1) continue;
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float32, Device::cpu, 0, 0.6, g));
  }
  const SamplingOptions greedy = {.temperature = 0};
  const auto next = [&](auto begin, auto end) { return generate(model, {begin, end}, 1, greedy).back(); };
  int differ = 0;
  for (int64_t first = 0; first < 11; ++first) {
    const auto text = generate(model, {first, 1}, 11, greedy);
    for (auto end = text.begin() + 9; end < text.end(); ++end) {
      CHECK(*end == next(text.begin() + 5, end));  // 4 to 7 tokens, where the context is 8
      differ += *end == next(end - 8, end) ? 0 : 1;
    }
  }
  CHECK(differ >= 3);
}

TEST_CASE("a cache holds no more than its capacity, and refuses to be differentiated") {
  const Tensor x = ones({1, 2, 2, 4});
  KeyValueCache cache(3);
  CHECK(cache.append(x, x).first.shape() == Shape{1, 2, 2, 4});
  CHECK(cache.append(slice(x, 2, 0, 1), slice(x, 2, 0, 1)).second.shape() == Shape{1, 2, 3, 4});
  CHECK_THROWS_WITH_AS(cache.append(x, x), doctest::Contains("there is room for 3"), Error);
  const Tape tape;
  CHECK_THROWS_WITH_AS(KeyValueCache(3).append(x, x), doctest::Contains("has no gradient"), Error);
}
