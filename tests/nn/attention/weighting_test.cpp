// The weights of attention: shares of tiny sums, and weights times factors.
#include "nn/attention/weighting.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
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

/// y = Σ_j w_j·v_j of reweighted softmax weights, and its gradients in scores, factors and v.
std::vector<std::vector<double>> read_of(std::vector<double> scores, std::vector<double> factors,
                                         DType dtype) {
  const Shape shape = {1, 1, 1, std::ssize(scores)};
  const Tensor s = tensor(scores, shape, dtype), f = tensor(factors, shape, dtype),
               v = tensor({1, 2, 4}, {1, 1, 3, 1}, dtype);
  Tape tape;
  for (const Tensor& x : {s, f, v}) tape.watch(x);
  const Weighting w = reweighted({.weights = softmax(s), .scores = s}, f);
  CHECK(test::distance(w.weights, softmax(w.scores)) < 1e-6);
  const Tensor y = sum(matmul(w.weights, v));
  std::vector<std::vector<double>> all = {y.values()};
  for (const Tensor& g : tape.gradient(y, {s, f, v})) all.push_back(g.values());
  return all;
}

}  // namespace

TEST_CASE("keys that count have their weights also where keys that do not count have far larger scores") {
  const double t = 1 / (1 + std::exp(1.0)), slope = t * (1 - t) * 2;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const double hidden : {0.0, 30.0, 95.0, 1e4}) {
      INFO(name(dtype), " ", hidden);
      const auto got = read_of({hidden, 0, 1}, {0, 1, 1}, dtype);
      const double limit = dtype == DType::float32 ? 1e-6 : 1e-14;
      CHECK(got[0][0] == doctest::Approx(2 * t + 4 * (1 - t)).epsilon(limit));
      CHECK(spec::distance(got[1], {0, -slope, slope}, 1e-3) < 10 * limit);
      CHECK(spec::distance(got[3], {0, t, 1 - t}, 1e-3) < 10 * limit);
      // The derivative in the factor of the hidden key is e^hidden·(v − y)/Σ, up to e^40
      const double want = std::exp(std::min(hidden - 1, 40.0)) * (1 - got[0][0]) * (1 - t);
      CHECK(got[2][0] == doctest::Approx(want).epsilon(10 * limit));
    }
}

TEST_CASE("a sum that counts as 0 is not divided by, so that no derivative overflows") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double smallest = smallest_total(dtype), x = smallest / 8;
    for (const double total : {0.0, smallest / 2, smallest, 2 * smallest}) {
      INFO(name(dtype), " ", total);
      const Tensor part = tensor({x}, {1}, dtype), sum = tensor({total}, {1}, dtype);
      Tape tape;
      tape.watch(part), tape.watch(sum);
      const Tensor share = share_of(part, sum, smallest);
      const bool counts = total > smallest;
      CHECK(share.item() == (counts ? x / total : x));
      const auto gradients = tape.gradient(share, {part, sum});
      CHECK(gradients[0].item() == (counts ? 1 / total : 1));
      CHECK(gradients[1].item() == (counts ? -x / total / total : 0));
    }
  }
}

TEST_CASE("rows without keys that count, NaN and infinity") {
  const auto weights = [](std::vector<double> scores, std::vector<double> factors) {
    const Tensor s = tensor(scores, {1, 1, 1, std::ssize(scores)});
    const Weighting w =
        reweighted({.weights = softmax(s), .scores = s}, tensor(factors, {1, 1, 1, std::ssize(factors)}));
    return w.weights.values();
  };
  const double infinity = INFINITY;
  CHECK(weights({-infinity, -infinity}, {1, 0}) == std::vector<double>{0, 0});
  CHECK(weights({3, 200}, {0, 0}) == std::vector<double>{0, 0});
  CHECK(weights({-infinity, 200}, {1, 0}) == std::vector<double>{0, 0});
  CHECK(weights({3, 3}, {1e-30, 1e-30}) == std::vector<double>{0.5, 0.5});
  for (const double e : weights({infinity, 1e4}, {1, 1})) CHECK(std::isnan(e));
  for (const double e : weights({NAN, 1}, {1, 1})) CHECK(std::isnan(e));
  for (const double e : weights({2, 1}, {NAN, 1})) CHECK(std::isnan(e));
}

TEST_CASE("a key that a first part hides has a gradient if a second part changes weights too") {
  for (const char* const name : {"learned_mask+adaptive_span=2", "adaptive_span=2+learned_mask"}) {
    INFO(name);
    ComposedAttention attention(parse_attention(name), 1, 2, 4);
    for (Parameter& p : attention.parameters())
      if (p.shape().rank() == 2) p.assign(tensor({1, -1, 1, 1}, {1, 4}));
    const Tensor x = cast(test::normal({1, 1, 4, 2}, 1), DType::float32);
    Tape tape;
    const Tensor y = sum(square(attention.forward(x, x, x, {.causal = true})));
    tape.backward(y);
    for (Parameter& p : attention.parameters())
      if (p.shape().rank() == 2) CHECK(std::abs(p.grad().values()[1]) > 1e-4);
  }
}

TEST_CASE("without keys there is nothing to weigh") {
  const ComposedAttention attention(parse_attention("adaptive_span"), 1, 2, 4);
  const Tensor q = zeros({1, 1, 3, 2}), none = zeros({1, 1, 0, 2});
  CHECK(attention.forward(q, none, none, {}).values() == std::vector<double>(6, 0));
  CHECK(attention.forward(none, none, none, {}).shape() == Shape{1, 1, 0, 2});
}

TEST_CASE("weights that are no softmax are multiplied, and divided by their sum") {
  const Tensor weights = tensor({0.5, 0.5, 0}, {1, 1, 1, 3}), factors = tensor({1, 3, 9}, {1, 1, 1, 3});
  const Weighting w = reweighted({.weights = weights}, factors);
  CHECK(test::distance(w.weights, tensor({0.25, 0.75, 0}, {1, 1, 1, 3})) < 1e-6);
  CHECK(!w.scores.defined());
}
