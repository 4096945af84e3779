// The number of keys in the scale of attention: half the context, a given number, or the keys that
// each query sees.
#include "nn/attention/composed.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/attention/scale.h"
#include "nn/attention/statistics.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kQueries = 5, kKeys = 7, kChannels = 6;

/// A mask, and the number of keys that each of the queries at positions 2 to 6 sees.
struct Counted {
  AttentionMask mask;
  std::vector<double> counts;
};

std::vector<Counted> counted_masks() {
  AttentionMask padding{.causal = true}, apart, one_column;
  const int64_t lengths[] = {4};
  padding.allowed = padding_mask(lengths, kKeys);
  apart.allowed = padding.allowed;
  one_column.allowed = tensor({1, 0, 1, 1, 1}, {kQueries, 1}, DType::boolean);
  return {{{.causal = true}, {3, 4, 5, 6, 7}},
          {{.causal = true, .left = 2}, {3, 3, 3, 3, 3}},
          {{.causal = true, .left = 4}, {3, 4, 5, 5, 5}},
          {{.causal = true, .left = 2, .first = 1}, {3, 4, 4, 4, 4}},
          {{.causal = true, .right = 3}, {3, 4, 5, 6, 7}},
          {{}, {7, 7, 7, 7, 7}},
          {{.left = 3, .right = 1}, {4, 5, 5, 5, 4}},
          {padding, {3, 4, 4, 4, 4}},
          {apart, {4}},
          {one_column, {7, 0, 7, 7, 7}}};
}

double factor(const std::string& rule, double n) {
  n = std::max(n, 2.0);
  if (rule == "cosine") return gradient_optimal_cosine_scale(n, kChannels);
  return (rule == "optimal" ? gradient_optimal_scale(n) : entropy_factor(n)) / std::sqrt(kChannels);
}

}  // namespace

TEST_CASE("a mask counts the keys that each query sees") {
  for (const Counted& c : counted_masks())
    CHECK(c.mask.visible_keys(kQueries, kKeys, Device::cpu).values() == c.counts);
  for (const AttentionMask& mask : {AttentionMask{.causal = true},
                                    {.right = 1},
                                    {.left = 1, .right = 0},
                                    {.left = 1, .right = 0, .first = 2},
                                    {}})
    for (const auto& [queries, keys] : {std::pair{4, 2}, {1, 5}, {3, 3}}) {
      const Tensor seen = mask.visible(queries, keys, Device::cpu),
                   all = full({queries, keys}, 1, DType::boolean);
      CHECK(mask.visible_keys(queries, keys, Device::cpu).values() ==
            sum(seen.defined() ? seen : all, {-1}).values());
    }
  CHECK(AttentionMask{}.visible_keys(2, 0, Device::cpu).values() == std::vector<double>{0, 0});
  // A distance beyond all keys has no effect, however large.
  CHECK(AttentionMask{.left = INT64_MAX, .right = INT64_MAX}.visible_keys(2, 3, Device::cpu).values() ==
        std::vector<double>{3, 3});
}

TEST_CASE("a number of keys after the name is the n of the scale, whatever the context") {
  for (const int64_t context : {8, 4096})
    for (const double n : {2.0, 32.0, 1000.0}) {
      const auto scale = [&](const std::string& rule) {
        return ComposedAttention(parse_attention(fmt::format("{}={}", rule, n)), 4, kChannels, context)
            .scale();
      };
      for (const std::string rule : {"optimal", "entropy", "cosine"})
        CHECK(scale(rule) == doctest::Approx(factor(rule, n)).epsilon(1e-14));
    }
}

TEST_CASE("the weights are the softmax of q·k times the scale for the keys that the query sees") {
  const Tensor q = test::normal({2, 4, kQueries, kChannels}, 1),
               k = test::normal({2, 4, kKeys, kChannels}, 2);
  for (const std::string rule : {"optimal", "entropy", "cosine"})
    for (const Counted& c : counted_masks()) {
      INFO(rule);
      const ComposedAttention attention(parse_attention(rule + "=visible"), 4, kChannels, 16);
      MixerTrace trace;
      attention.forward(q, k, k, c.mask, nullptr, &trace);
      std::vector<double> factors;
      for (const double n : c.counts) factors.push_back(factor(rule, n));
      Tensor scores = matmul(trace.q, transpose(trace.k)) *
                      tensor(factors, {static_cast<int64_t>(factors.size()), 1}, DType::float64);
      const Tensor visible = c.mask.visible(kQueries, kKeys, Device::cpu);
      if (visible.defined()) scores = where(visible, scores, -INFINITY);
      CHECK(spec::distance(trace.weights.values(), softmax(scores).values(), 1e-3) <= 1e-13);
    }
}

TEST_CASE("a query's scale changes with the keys that it sees, and not with those that come later") {
  const ComposedAttention attention(parse_attention("entropy=visible"), 4, kChannels, 16);
  const Tensor q = test::normal({1, 4, kKeys, kChannels}, 1), k = test::normal({1, 4, kKeys, kChannels}, 2);
  const AttentionMask causal{.causal = true};
  const Tensor whole = attention.forward(q, k, k, causal);
  for (int64_t time = 1; time < kKeys; ++time) {
    const auto first = [&](const Tensor& x) { return slice(x, 2, 0, time); };
    CHECK(spec::distance(attention.forward(first(q), first(k), first(k), causal).values(),
                         first(whole).values(), 1e-3) <= 1e-13);
  }
  const ComposedAttention fixed(parse_attention("entropy=2"), 4, kChannels, 16);
  const auto row = [&](const Attention& a, int64_t i) {
    return select(a.forward(q, k, k, causal), 2, i).values();
  };
  CHECK(spec::distance(row(attention, 1), row(fixed, 1), 1e-3) <= 1e-14);  // two keys are seen
  CHECK(spec::distance(row(attention, 2), row(fixed, 2), 1e-3) > 1e-3);
}

TEST_CASE("heads of two channels have a scale for many keys") {
  const ComposedAttention attention(parse_attention("cosine=visible"), 1, 2, 16);
  const Tensor x = test::normal({1, 1, 1100, 2}, 1);
  for (const double y : attention.forward(x, x, x, {.causal = true}).values()) CHECK(std::isfinite(y));
}

TEST_CASE("attention scaled by visible keys passes the checks of an op") {
  const spec::Call call = [](const std::vector<Tensor>& x) {
    const ComposedAttention attention(parse_attention("optimal=visible"), 2, 4, 8);
    return attention.forward(x[0], x[1], x[2], {.causal = true, .left = 3});
  };
  spec::Spec row{
      "attention",
      call,
      {{{{1, 2, 5, 4}}, {{1, 2, 5, 4}}, {{1, 2, 5, 4}}}, {{{2, 2, 3, 4}}, {{2, 1, 7, 4}}, {{2, 1, 7, 4}}}}};
  // As for the op: large scores have an absolute error, which exp turns into a relative error. The
  // definition multiplies hidden keys by 0; the kernel does not read them.
  row.largest = 3, row.not_finite = false;
  const std::string errors = spec::check_all({row});
  CHECK_MESSAGE(errors.empty(), errors);
}

TEST_CASE("the Jacobian's size in figures of a head takes each query's own scale") {
  const ComposedAttention attention(parse_attention("optimal=visible"), 1, kChannels, 16);
  const Tensor q = zeros({2, 1, 3, kChannels}, DType::float64), k = test::normal({2, 1, 3, kChannels}, 1);
  MixerTrace trace;
  attention.forward(q, k, k, {.causal = true}, nullptr, &trace);
  const double want = (factor("optimal", 2) * (1 - 1.0 / 2) + factor("optimal", 3) * (1 - 1.0 / 3)) / 2;
  CHECK(inspect(trace)[0].jacobian == doctest::Approx(want).epsilon(1e-14));
}

TEST_CASE("an attention tells its scale and the number of keys that it is for") {
  const auto tells = [](const std::string& name, const std::string& text) {
    const std::string told = ComposedAttention(parse_attention(name), 4, 64, 512).explain();
    CHECK_MESSAGE(told.find("; the scores are multiplied by " + text) != std::string::npos, told);
  };
  tells("standard", "0.125: 1/√D");
  tells("scale=0.3", "0.3, a constant");
  tells("optimal", "0.232937: gradient-optimal for n = 256 keys");
  tells("optimal=64", "0.19368: gradient-optimal for n = 64 keys");
  tells("entropy=512", "0.125: log n/log 512/√D for n = 512 keys");
  tells("cosine=visible",
        "what is gradient-optimal for the n keys that their query sees: 16.6385 at n = 256");
  CHECK(ComposedAttention(parse_attention("entropy=visible"), 4, 64, 512).path() ==
        ComposedAttention::Path::fused);
}

TEST_CASE("numbers of keys that make no sense are refused") {
  const auto refused = [](const std::string& name, const std::string& why) {
    CHECK_THROWS_WITH(parse_attention(name), doctest::Contains(why.c_str()));
  };
  for (const std::string number : {"1", "0", "-4", "inf", "nan", "", "rows", "32x"})
    refused("entropy=" + number, "entropy: keys is " + number + ", wanted a number from 2 on, or visible");
  const auto not_made = [](const std::string& name, const std::string& why) {
    CHECK_THROWS_WITH(ComposedAttention(parse_attention(name), 4, 8, 16), doctest::Contains(why.c_str()));
  };
  for (const char* name : {"cosine=8+optimal=visible", "cosine+entropy"})
    not_made(name, "scales q·k by a multiple of 1/√D, which the scores of cosine do not have");
  not_made("cosine=visible+scale=3", "scale is the whole scale, so a number of keys has no effect on cosine");
  CHECK_THROWS_WITH(ComposedAttention(parse_attention("cosine=1e12"), 4, 2, 16),
                    doctest::Contains("too many for 2 dimensions"));
}
