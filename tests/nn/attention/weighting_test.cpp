// The weights of attention: shares of tiny sums, and weights times factors.
#include "nn/attention/weighting.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/attention/lsh.h"
#include "nn/attention/multi_head.h"
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
    for (const double hidden : {0.0, 50.0, 95.0, 1e4}) {
      INFO(name(dtype), " ", hidden);
      const auto got = read_of({hidden, 0, 1}, {0, 1, 1}, dtype);
      const double limit = dtype == DType::float32 ? 1e-6 : 1e-14;
      CHECK(got[0][0] == doctest::Approx(2 * t + 4 * (1 - t)).epsilon(limit));
      CHECK(spec::distance(got[1], {0, -slope, slope}, 1e-3) < 10 * limit);
      CHECK(spec::distance(got[3], {0, t, 1 - t}, 1e-3) < 10 * limit);
      // The derivative in the factor of the hidden key is e^hidden·(v − y)/Σ, up to e^60
      const double want = std::exp(std::min(hidden - 1, 60.0)) * (1 - got[0][0]) * (1 - t);
      CHECK(got[2][0] == doctest::Approx(want).epsilon(10 * limit));
    }
}

TEST_CASE("a share of a sum that counts as 0 is 0, and has no gradient") {
  const Tensor x = tensor({1e-40, 1, 0, 2e-20}, {4, 1}, DType::float32),
               total = tensor({3e-40, 4, 0, 4e-20}, {4, 1}, DType::float32);
  Tape tape;
  tape.watch(x), tape.watch(total);
  const Tensor share = share_of(x, total);
  CHECK(spec::distance(share.values(), {0, 0.25, 0, 0.5}, 1e-3) < 1e-6);
  const auto gradients = tape.gradient(sum(share), {x, total});
  CHECK(spec::distance(gradients[0].values(), {0, 0.25, 0, 2.5e19}, 1e-3) < 1e-6);
  CHECK(spec::distance(gradients[1].values(), {0, -0.0625, 0, -1.25e19}, 1e-3) < 1e-6);
}

TEST_CASE("weights that are no softmax are multiplied, and divided by their sum") {
  const Tensor weights = tensor({0.5, 0.5, 0}, {1, 1, 1, 3}), factors = tensor({1, 3, 9}, {1, 1, 1, 3});
  const Weighting w = reweighted({.weights = weights}, factors);
  CHECK(test::distance(w.weights, tensor({0.25, 0.75, 0}, {1, 1, 1, 3})) < 1e-6);
  CHECK(!w.scores.defined());
}
