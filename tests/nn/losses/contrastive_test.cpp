// Contrastive losses, losses with a margin, and output layers.
#include "nn/losses/contrastive.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "nn/check_gradients.h"
#include "nn/layers/output.h"
#include "nn/losses/margin.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Tensor targets(std::vector<int64_t> values) {
  return index_tensor(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("InfoNCE: orthogonal pairs give log(1 + (N − 1)·e^(−1/τ)); margin and negatives make it larger") {
  const Tensor unit = eye(4, -1, DType::float64);
  const double tau = 0.5;
  const double pairs = info_nce(unit * 3.0, unit, {}, {.temperature = tau}).item();
  CHECK(pairs == doctest::Approx(std::log(1 + 3 * std::exp(-1 / tau))).epsilon(1e-12));
  CHECK(info_nce(unit, unit, unit, {.temperature = tau}).item() ==
        doctest::Approx(std::log(2 + 6 * std::exp(-1 / tau))).epsilon(1e-12));
  CHECK(info_nce(unit, unit, {}, {.temperature = tau, .margin = 0.4}).item() ==
        doctest::Approx(std::log(1 + 3 * std::exp(-0.6 / tau))).epsilon(1e-12));
  const Tensor a = test::normal({4, 3}, 8), b = test::normal({4, 3}, 2);
  const auto loss = [&](const Tensor& x, const Tensor& y, bool symmetric) {
    return info_nce(x, y, {}, {.temperature = 0.3, .symmetric = symmetric}).item();
  };
  CHECK(loss(a, b, true) == doctest::Approx((loss(a, b, false) + loss(b, a, false)) / 2));
  CHECK(std::abs(loss(a, b, false) - loss(b, a, false)) > 1e-3);
  CHECK(loss(2.0 * a, b, false) == doctest::Approx(loss(a, b, false)));  // lengths have no effect
  const auto report = check_gradients(
      [](const std::vector<Tensor>& t) {
        return info_nce(t[0], t[1], t[2], {.temperature = 0.3, .margin = 0.1, .symmetric = true});
      },
      {a, b, test::normal({2, 3}, 5)});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(info_nce(a, test::normal({3, 3}, 8)), doctest::Contains("wanted the same [N, C]"),
                       Error);
  CHECK_THROWS_WITH_AS(info_nce(a, b, test::normal({2, 4}, 8)), doctest::Contains("wanted [M, 3]"), Error);
  CHECK_THROWS_WITH_AS(info_nce(a, b, {}, {.temperature = 0}), doctest::Contains("the temperature is 0"),
                       Error);
}

TEST_CASE("margins: without one both are softmax of cosines, and arcface turns the angle up to π") {
  const Tensor x = test::normal({5, 3}, 8), w = test::normal({4, 3}, 2), t = targets({0, 3, 1, 2, 2});
  const Tensor cosine = matmul(l2_normalize(x), transpose(l2_normalize(w)));
  const double plain = cross_entropy(7.0 * cosine, t).item();
  for (const Margin kind : {Margin::am_softmax, Margin::arcface}) {
    CHECK(margin_softmax(x, w, t, {.kind = kind, .margin = 0, .scale = 7}).item() == doctest::Approx(plain));
    CHECK(margin_softmax(x, w, t, {.kind = kind, .margin = 0.3, .scale = 7}).item() > plain);
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& v) {
          return margin_softmax(v[0], v[1], t, {.kind = kind, .margin = 0.3, .scale = 7});
        },
        {x, w});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
  // Two classes at right angles: x at the angle θ from its class.
  const auto loss = [](double angle, double m, DType dtype = DType::float64) {
    const Tensor vector = tensor({std::cos(angle), std::sin(angle)}, {1, 2}, dtype);
    return margin_softmax(vector, eye(2, -1, dtype), targets({0}),
                          {.kind = Margin::arcface, .margin = m, .scale = 1})
        .item();
  };
  const auto wanted = [](double own, double other) { return std::log(1 + std::exp(other - own)); };
  CHECK(loss(0.5, 0.3) == doctest::Approx(wanted(std::cos(0.8), std::sin(0.5))).epsilon(1e-12));
  CHECK(loss(3.0, 0.5) ==
        doctest::Approx(wanted(std::cos(3.0) - 0.5 * std::sin(0.5), std::sin(3.0))).epsilon(1e-12));
  CHECK(std::isfinite(loss(0, 0.5, DType::float32)));
  CHECK(loss(0, 0.5, DType::float32) == doctest::Approx(wanted(std::cos(0.5), 0)).epsilon(1e-5));
  CHECK_THROWS_WITH_AS(margin_softmax(x, test::normal({4, 2}, 8), t),
                       doctest::Contains("wanted [N, C] and [classes, C]"), Error);
  CHECK_THROWS_WITH_AS(margin_softmax(x, w, t, {.kind = Margin::arcface, .margin = 4}),
                       doctest::Contains("wanted an angle in [0, π)"), Error);
}

TEST_CASE("the margin loss of a vector on its class has finite gradients") {
  const Tensor unit = eye(3);
  Tape tape;
  tape.watch(unit);
  const Tensor loss = margin_softmax(unit, eye(3), targets({0, 1, 2}), {.kind = Margin::arcface});
  CHECK(all(is_finite(tape.gradient(loss, {unit}).at(0))).item() == 1);
}

TEST_CASE("the margin loss of 16-bit vectors near their classes has finite gradients") {
  const Tensor x = cast(tensor({3, 0, 1, 2}, {2, 2}, DType::float32), DType::float16),
               w = cast(eye(2), DType::float16);
  Tape tape;
  tape.watch(x);
  const Tensor loss = margin_softmax(x, w, targets({0, 1}), {.kind = Margin::arcface, .margin = 0.3});
  CHECK(loss.dtype() == DType::float16);
  CHECK(all(is_finite(tape.gradient(loss, {x}).at(0))).item() == 1);
}

TEST_CASE(
    "LASER as an output layer: between the values, log-softmax for the identity, finite for large values") {
  const Tensor logits = test::normal({2, 3, 4}, 8), v = test::normal({4, 5}, 2);
  const Tensor y = laser_output(logits, v);
  CHECK(y.shape() == Shape{2, 3, 5});
  CHECK(test::distance(y, log(matmul(softmax(logits), exp(v)))) < 1e-13);
  CHECK(test::distance(laser_output(logits, log(eye(4, -1, DType::float64))), log_softmax(logits)) < 1e-14);
  CHECK(test::distance(laser_output(logits, v + 1000.0), y + 1000.0) < 1e-12);
  CHECK_THROWS_WITH_AS(laser_output(logits, test::normal({5, 2}, 8)),
                       doctest::Contains("wanted [..., V] and [V, D]"), Error);
}

TEST_CASE("mixture of softmaxes: probabilities, one mixture is a softmax, gradients and errors") {
  MixtureOfSoftmaxes layer(2, 6, 3), one(2, 6, 1);
  layer.to(DType::float64), one.to(DType::float64);
  uint64_t seed = 3;
  for (Module* const m : {static_cast<Module*>(&layer), static_cast<Module*>(&one)})
    for (Parameter& p : m->parameters()) p.assign(test::normal(p.shape(), ++seed));
  const Tensor x = test::normal({2, 10, 2}, 8), y = layer.forward(x);
  CHECK(test::distance(sum(exp(y), {2}), ones({2, 10}, DType::float64)) < 1e-14);
  CHECK(test::distance(one.forward(x), log_softmax(one.out.forward(tanh(one.hidden.forward(x))))) < 1e-14);
  CHECK(test::distance(layer.clone().forward(x), y) == 0);
  const auto report = check_gradients(layer, {x});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(MixtureOfSoftmaxes(4, 6, 2, 3).forward(zeros({1, 4})).shape() == Shape{1, 6});
  CHECK_THROWS_WITH_AS(MixtureOfSoftmaxes(2, 6, 0), doctest::Contains("there are 0 mixtures"), Error);
  CHECK_THROWS_WITH_AS(layer.forward(test::normal({1, 3}, 8)), doctest::Contains("wanted [..., 2]"), Error);
}
