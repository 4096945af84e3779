#include "ops/softmax.h"

#include <cmath>
#include <limits>

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

// log_sum_exp with the arguments of softmax.
Tensor along_axis(const Tensor& x, int64_t axis) { return log_sum_exp(x, {axis}); }
Tensor defined_along_axis(const Tensor& x, int64_t axis) { return define::log_sum_exp(x, {axis}); }

/// Softmax along the last axis by the textbook formula, in long double.
V textbook(const Tensor& x) {
  V y = x.values();
  const size_t n = static_cast<size_t>(x.size(-1));
  for (size_t row = 0; row < y.size(); row += n) {
    long double total = 0;
    for (size_t i = 0; i < n; ++i) total += std::exp(static_cast<long double>(y[row + i]));
    for (size_t i = 0; i < n; ++i)
      y[row + i] = static_cast<double>(std::exp(static_cast<long double>(y[row + i])) / total);
  }
  return y;
}

TEST_CASE("softmax, log_softmax and log_sum_exp equal the textbook in every dtype") {
  for (DType dtype : kFloatTypes)
    for (int64_t n : {1, 3, 16, 77, 1000}) {
      const Tensor x = random({5, n}, 1, dtype, -4, 4);
      const Tensor want = tensor(textbook(x), {5, n}, DType::float64);
      CHECK(distance(softmax(x), want) < rounding_bound(dtype));
      CHECK(distance(log_softmax(x), log(want)) < rounding_bound(dtype));
      CHECK(distance(log_sum_exp(x), select(copy_as(x, DType::float64) - log(want), 1, 0)) <
            rounding_bound(dtype));
      CHECK(softmax(x).dtype() == dtype);
      CHECK(log_sum_exp(x).dtype() == dtype);
    }
}

TEST_CASE("the kernels equal the definitions, and their gradients the definitions' gradients") {
  const std::pair<Tensor (*)(const Tensor&, int64_t), Tensor (*)(const Tensor&, int64_t)> ops[] = {
      {softmax, define::softmax}, {log_softmax, define::log_softmax}, {along_axis, defined_along_axis}};
  for (DType dtype : kFloatTypes)
    for (const auto& [op, definition] : ops) {
      const Tensor x = random({4, 3, 37}, 2, dtype, -5, 5), exact = copy_as(x, DType::float64);
      const auto run = [](auto f) { return [f](const std::vector<Tensor>& xs) { return f(xs[0], -1); }; };
      CHECK(distance(op(x, -1), definition(exact, -1)) < rounding_bound(dtype));
      CHECK(distance(op(x, -1), definition(x, -1)) < 2 * rounding_bound(dtype));
      // Cotangents are drawn in float32 for every dtype and rounded; their rounding causes two more
      // roundings in the result.
      CHECK(distance(gradients(run(op), {x})[0], gradients(run(definition), {exact})[0], 0.1) <
            3 * rounding_bound(dtype));
    }
}

TEST_CASE("gradients along every axis match differences, to the second order") {
  const Tensor x = random({3, 4, 2}, 3, DType::float64, -2, 2);
  for (int64_t axis : {0, 1, 2, -2}) {
    CHECK(gradient_error([&](const auto& xs) { return softmax(xs[0], axis); }, {x}) < 1e-7);
    CHECK(gradient_error([&](const auto& xs) { return log_softmax(xs[0], axis); }, {x}) < 1e-7);
    CHECK(gradient_error([&](const auto& xs) { return log_sum_exp(xs[0], {axis}); }, {x}) < 1e-7);
  }
}

TEST_CASE("another axis, or a view, gives what a copy along the last axis gives") {
  const Tensor x = random({3, 4, 5}, 4);
  CHECK(softmax(x, 0).values() ==
        copy_as(permute(softmax(permute(x, {1, 2, 0})), {2, 0, 1}), x.dtype()).values());
  CHECK(log_sum_exp(x, {1}).values() == log_sum_exp(copy_as(transpose(x), x.dtype())).values());
  CHECK(log_sum_exp(x, {0}).shape() == Shape{4, 5});
  CHECK(softmax(slice(x, 2, 0, 5, 2)).values() == softmax(copy_as(slice(x, 2, 0, 5, 2), x.dtype())).values());
}

TEST_CASE("large inputs do not overflow, and small differences between them count") {
  const Tensor x = tensor({1e4, 1e4 + 1, 1e4 - 1}, {1, 3});
  const V want = textbook(tensor({0, 1, -1}, {1, 3}, DType::float64));
  CHECK(distance(softmax(x), tensor(want, {1, 3}, DType::float64)) < 1e-6);
  CHECK(distance(log_softmax(x), log(tensor(want, {1, 3}, DType::float64))) < 1e-6);
  // e^(x − lse) from a float32 lse of about 1e4 would be wrong by 5e-4.
  const auto dx = gradients([](const auto& xs) { return log_sum_exp(xs[0]); }, {x})[0];
  const auto seed = gradients([](const auto& xs) { return log_sum_exp(xs[0]); }, {zeros({1, 1})})[0].item();
  CHECK(distance(dx, tensor(want, {1, 3}, DType::float64) * seed) < 1e-6);
}

TEST_CASE("bfloat16 statistics stay in float32: equal inputs of 300 share the gradient in halves") {
  Tape tape;
  const Tensor x = tape.watch(tensor({300, 300}, DType::bfloat16));
  const Tensor y = log_sum_exp(x);
  CHECK(tape.gradient(y, {x})[0].values() == V{0.5, 0.5});
}

TEST_CASE("a row of only −∞ gives 0 and gradient 0, beside rows that have elements") {
  const Tensor x = tensor({-kInfinity, -kInfinity, -kInfinity, 1, -kInfinity, 1}, {2, 3}, DType::float64);
  CHECK(softmax(x).values() == V{0, 0, 0, 0.5, 0, 0.5});
  CHECK(log_sum_exp(x).values() == V{-kInfinity, 1 + std::log(2.0)});
  CHECK(log_softmax(x).values() ==
        V{-kInfinity, -kInfinity, -kInfinity, -std::log(2.0), -kInfinity, -std::log(2.0)});
  for (int order : {1, 2}) {  // the kernels, and the definitions
    const auto first = [&](Tensor (*op)(const Tensor&, int64_t)) {
      Tape tape({.order = order});
      const Tensor watched = tape.watch(x);
      const Tensor y = op(watched, -1);
      return tape.gradient({y}, {watched}, {ones_like(y)})[0].values();
    };
    CHECK(first(softmax) == V{0, 0, 0, 0, 0, 0});
    CHECK(first(along_axis) == V{0, 0, 0, 0.5, 0, 0.5});
    const V dx = first(log_softmax);
    CHECK(V(dx.begin(), dx.begin() + 3) == V{0, 0, 0});
    CHECK(dx[4] == 1);
  }
}

TEST_CASE("+∞ and NaN behave as e^x / Σ e^x does") {
  const Tensor x = tensor({kInfinity, 0, std::nan(""), 0}, {2, 2});
  CHECK(distance(softmax(x), define::softmax(x, -1)) == 0);
  CHECK(std::isnan(softmax(x).values()[0]));
  CHECK(softmax(x).values()[1] == 0);
  CHECK(log_sum_exp(x).values()[0] == kInfinity);
  CHECK(std::isnan(log_sum_exp(x).values()[1]));
}

TEST_CASE(
    "rows longer than a block: a growing maximum, blocks of only −∞, an infinity or NaN in a late block") {
  const Tensor rising = cumsum(random({2, 20000}, 6, DType::float64, 0, 0.01), 1);
  CHECK(distance(log_sum_exp(rising), define::log_sum_exp(rising, {-1})) < 1e-14);
  CHECK(distance(log_softmax(flip(rising, {1})), define::log_softmax(flip(rising, {1}), -1)) < 1e-14);
  Tensor x = full({1, 30000}, -kInfinity);
  x.data<float>()[29000] = 2;
  CHECK(log_sum_exp(x).item() == 2);
  x.data<float>()[100] = 3;
  CHECK(log_sum_exp(x).item() == doctest::Approx(3 + std::log1p(std::exp(-1.0))));
  x.data<float>()[20000] = kInfinity;
  CHECK(log_sum_exp(x).item() == kInfinity);
  x.data<float>()[29999] = std::nanf("");
  CHECK(std::isnan(log_sum_exp(x).item()));
}

TEST_CASE("log_sum_exp goes over any axes, which are dropped or kept") {
  const Tensor x = random({3, 4, 5}, 8, DType::float64);
  const Tensor flat = reshape(permute(x, {1, 0, 2}), {4, 15});
  CHECK(distance(log_sum_exp(x, {0, -1}), log_sum_exp(flat)) < 1e-15);
  CHECK(log_sum_exp(x, {-1, 0}, KeepAxes::yes).shape() == Shape{1, 4, 1});
  CHECK(log_sum_exp(x, {1}, KeepAxes::yes).shape() == Shape{3, 1, 5});
  CHECK(distance(log_sum_exp(x, {}), log(sum(exp(x)))) < 1e-15);
  CHECK(log_sum_exp(x, {}, KeepAxes::yes).shape() == Shape{1, 1, 1});
  CHECK(log_sum_exp(Tensor(3.5), {}).item() == 3.5);
}

TEST_CASE("log_sum_exp lies between the largest element and that + log n") {
  for (DType dtype : kFloatTypes)
    for (int64_t n : {1, 2, 16, 77, 1000})
      for (double size : {1e-3, 1.0, 300.0}) {
        const Tensor x = random({5, n}, 3, dtype, -size, size);
        const V lse = log_sum_exp(x).values(), largest = max(x, {1}).values();
        const double most = std::log(static_cast<double>(n));
        for (size_t i = 0; i < lse.size(); ++i) {
          CHECK(lse[i] >= largest[i]);  // rounding does not pass a number of the dtype
          CHECK(lse[i] <= (largest[i] + most) + epsilon(dtype) * (std::abs(largest[i]) + most));
        }
      }
  // Equal elements reach the upper bound.
  CHECK(log_sum_exp(full({8}, 3, DType::float64)).item() ==
        doctest::Approx(3 + std::log(8.0)).epsilon(1e-15));
}

TEST_CASE("no rows give no rows; no elements have no log-sum-exp") {
  CHECK(softmax(empty({0, 3})).shape() == Shape{0, 3});
  CHECK(softmax(empty({3, 0})).shape() == Shape{3, 0});
  CHECK(softmax(empty({3, 0}), 0).shape() == Shape{3, 0});
  CHECK(log_sum_exp(empty({0, 3})).shape() == Shape{0});
  CHECK(error_of([] {
          log_sum_exp(empty({3, 0}));
        }) == "log_sum_exp: x has the shape [3, 0]: there are no elements along the axes [1] to reduce");
}

TEST_CASE("errors name the op, the axis and the dtype") {
  CHECK(error_of([] {
          softmax(empty({2, 3}), 2);
        }) == "softmax: axis 2 is outside [-2, 2) for the shape [2, 3]");
  CHECK(error_of([] { log_softmax(empty({}), 0); }).starts_with("log_softmax: axis 0"));
  CHECK(error_of([] { softmax(empty({2}, DType::int64)); }) ==
        "softmax: x is int64[2] on cpu, wanted a floating dtype (cast it first)");
}

TEST_CASE("the result does not depend on the number of threads") {
  const Tensor x = random({301, 1003}, 5, DType::float32, -3, 3);
  CHECK(same_on_any_threads([&] {
    const auto run = [&](auto op) {
      return gradients([&](const auto& xs) { return op(xs[0], -1); }, {x})[0];
    };
    return std::vector<Tensor>{softmax(x), log_sum_exp(x), run(softmax), run(log_softmax), run(along_axis)};
  }));
}

}  // namespace
}  // namespace vitrine::test
