// Parts with scores of their own, biases by distance and softmax with a sink: each against a plain
// loop over its formula, and the gradients of inputs and parameters.
#include "nn/attention/scores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/creation.h"
#include "nn/attention/composed.h"
#include "nn/attention/positions.h"
#include "nn/check_gradients.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kHeads = 2, kQueries = 3, kKeys = 4, kSize = 2;

/// An attention whose parameters are normal numbers, so that no term of its formula is 0.
struct Subject {
  explicit Subject(const std::string& name) : attention(parse_attention(name), kHeads, kSize, 8) {
    attention.to(DType::float64);
    uint64_t seed = 10;
    for (auto& [path, parameter] : attention.named_parameters())
      parameter.assign(test::normal(parameter.shape(), seed++));
  }
  double parameter(const std::string& path, const Shape& at) {
    for (auto& [own, p] : attention.named_parameters())
      if (own.ends_with(path)) return element(p.value(), at);
    fail("there is no parameter {}", path);
  }
  static double element(const Tensor& x, const Shape& at) {
    int64_t index = 0;
    for (int axis = 0; axis < at.rank(); ++axis) index = index * x.size(axis) + at[axis];
    return x.values()[static_cast<size_t>(index)];
  }

  ComposedAttention attention;
  Tensor q = test::normal({1, kHeads, kQueries, kSize}, 1), k = test::normal({1, kHeads, kKeys, kSize}, 2),
         v = test::normal({1, kHeads, kKeys, kSize}, 3);
};

using Score = std::function<double(Subject&, int64_t head, int64_t i, int64_t j)>;

double dot(Subject& s, int64_t h, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t d = 0; d < kSize; ++d)
    sum += Subject::element(s.q, {0, h, i, d}) * Subject::element(s.k, {0, h, j, d});
  return sum;
}

/// Compares with Σ_j softmax(score)_j·v_j, where the softmax has a further term e^sink in its sum,
/// and checks the gradients.
void check_against(const std::string& name, const Score& score, double sink = -INFINITY) {
  INFO(name);
  Subject s(name);
  const Tensor got = s.attention.forward(s.q, s.k, s.v, {});
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < kQueries; ++i)
      for (int64_t d = 0; d < kSize; ++d) {
        double total = std::exp(sink), sum = 0;
        for (int64_t j = 0; j < kKeys; ++j) {
          const double e = std::exp(score(s, h, i, j));
          total += e, sum += e * Subject::element(s.v, {0, h, j, d});
        }
        CHECK(Subject::element(got, {0, h, i, d}) == doctest::Approx(sum / total).epsilon(1e-12));
      }
  const GradientReport report = check_gradients(
      s.attention, [&](const std::vector<Tensor>& x) { return s.attention.forward(x[0], x[1], x[2], {}); },
      {s.q, s.k, s.v});
  CHECK_MESSAGE(report.passed, to_string(report));
}

double additive(Subject& s, int64_t h, int64_t i, int64_t j, int64_t hidden, bool biased) {
  double sum = 0;
  for (int64_t a = 0; a < hidden; ++a) {
    double inner = biased ? s.parameter("bias", {h, 0, 0, a}) : 0;
    for (int64_t d = 0; d < kSize; ++d)
      inner += s.parameter("query_weight", {h, a, d}) * Subject::element(s.q, {0, h, i, d}) +
               s.parameter("key_weight", {h, a, d}) * Subject::element(s.k, {0, h, j, d});
    sum += s.parameter(".weight", {h, 0, 0, a}) * std::tanh(inner);
  }
  return sum;
}

}  // namespace

TEST_CASE("additive scores and those of Luong") {
  check_against("additive", [](Subject& s, int64_t h, int64_t i, int64_t j) {
    return additive(s, h, i, j, kSize, true);
  });
  check_against("additive=5",
                [](Subject& s, int64_t h, int64_t i, int64_t j) { return additive(s, h, i, j, 5, true); });
  check_against("luong_concat", [](Subject& s, int64_t h, int64_t i, int64_t j) {
    return additive(s, h, i, j, kSize, false);
  });
  check_against("luong_dot", dot);
  check_against("luong_general", [](Subject& s, int64_t h, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t a = 0; a < kSize; ++a)
      for (int64_t b = 0; b < kSize; ++b)
        sum += Subject::element(s.q, {0, h, i, a}) * s.parameter("weight", {h, a, b}) *
               Subject::element(s.k, {0, h, j, b});
    return sum;
  });
}

TEST_CASE("T5's bias is that of the bucket of the distance, the last query is aligned with the last key") {
  for (const bool past : {false, true})
    check_against(past ? "t5=buckets=4:distance=8:past" : "t5=buckets=8:distance=4",
                  [past](Subject& s, int64_t h, int64_t i, int64_t j) {
                    const int64_t bucket = relative_bucket(
                        j - (i + kKeys - kQueries),
                        {.count = past ? 4 : 8, .max_distance = past ? 8 : 4, .bidirectional = !past});
                    return dot(s, h, i, j) / std::sqrt(2.0) + s.parameter("table", {bucket, h});
                  });
}

TEST_CASE("a sink takes a share of the weights") {
  const auto scaled = [](Subject& s, int64_t h, int64_t i, int64_t j) {
    return dot(s, h, i, j) / std::sqrt(2.0);
  };
  check_against("sink", scaled, 0);
  Subject learned("sink=learned"), plain("standard");
  for (auto& [path, parameter] : learned.attention.named_parameters())
    parameter.assign(full({kHeads, 1, 1}, -800, DType::float64));  // as if there were no sink
  CHECK(spec::distance(learned.attention.forward(learned.q, learned.k, learned.v, {}).values(),
                       plain.attention.forward(plain.q, plain.k, plain.v, {}).values(), 1) < 1e-12);
  Subject fresh("sink=learned");
  const GradientReport report = check_gradients(
      fresh.attention,
      [&](const std::vector<Tensor>& x) { return fresh.attention.forward(x[0], x[1], x[2], {}); },
      {fresh.q, fresh.k, fresh.v});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("what these parts do not accept") {
  const auto refused = [](const char* name, const char* reason) {
    INFO(name);
    CHECK_THROWS_WITH_AS(ComposedAttention(parse_attention(name), kHeads, kSize, 8),
                         doctest::Contains(reason), Error);
  };
  refused("additive=2.5", "hidden is 2.5, wanted a whole number from 1 on");
  refused("additive+luong_general", "exclude each other: both change the scores");
  refused("additive+optimal", "additive has scores of its own, which have no scale");
  refused("luong_dot+optimal", "exclude each other: both change the scale of the scores");
  refused("t5=buckets=5", "5 buckets up to distance 128, wanted an even number of at least 4 buckets");
  refused("t5=buckets=32:distance=8", "32 buckets up to distance 8, wanted");
  refused("sink+laser", "laser is defined for weights that are ≥ 0 and sum to 1");
  refused("sink+entmax", "exclude each other: both change the normalization of the weights");
}
