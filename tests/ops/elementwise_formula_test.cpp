// A user-defined formula must pass the same checks as the library's own ops.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "ops/elementwise.h"
#include "ops/elementwise_formula.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

using namespace vitrine;

namespace {

/// x + sin²(f·x)/f.
struct Snake {
  static constexpr const char* kName = "snake";
  double f;

  template <class T>
  VITRINE_HD T value(T x) const {
    const T s = sin(T(f) * x);
    return x + s * s / T(f);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(1) + sin(T(2 * f) * x);
  }
};

/// Uses many of the functions that a formula may call; value and derivative use different ones.
struct Everything {
  static constexpr const char* kName = "everything";

  template <class T>
  VITRINE_HD T value(T x) const {
    const T p = x * x + 1, e = exp(-p), inner = max(min(x, T(1.5)), T(-1.5));
    const T sum = expm1(e) + log(p) + log1p(p) + sqrt(p) + rsqrt(p) + cos(x) + tanh(x) + erf(x);
    return sum + select(x > 0 && !(x >= 100), abs(x), sign(x) * x) + mul_add(inner, inner, x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T p = x * x + 1, dp = 2 * x, e = exp(-p), r = rsqrt(p), t = tanh(x);
    const T sum = exp(e) * e * -dp + dp / p + dp / (p + 1) + dp * r / 2 - dp * r * r * r / 2 - sin(x) + 1 -
                  t * t + T(2 / std::sqrt(M_PI)) * exp(-(x * x));
    return sum + sign(x) + 1 + select(x < T(-1.5) || x > T(1.5), T(0), 2 * x);
  }
};

const std::vector<spec::Spec> kRows = {
    {.name = "snake",
     .call = [](const std::vector<Tensor>& x) { return elementwise(Snake{1.5}, x[0]); },
     .samples = {{{{3, 5}}}, {{{37}, -4, 4}}, {{{2, 100}}}},
     .largest = 4,
     .reason = "f·x is rounded: an error of the angle that grows with x",
     .on_gpu = false},
    {.name = "everything",
     .call = [](const std::vector<Tensor>& x) { return elementwise(Everything(), x[0]); },
     .samples = {{{{70}, 0.1, 1.4}}, {{{3, 5}, -1.4, -0.1}}, {{{9}, 1.6, 4}}},
     .largest = 4,
     .reason = "x² and cos",
     .on_gpu = false},
};

}  // namespace

TEST_CASE("a formula passes every check of the library's own ops") {
  const std::string errors = spec::check_all(kRows);
  CHECK_MESSAGE(errors.empty(), errors);
}

TEST_CASE("a formula takes views, empty tensors and scalars, and refuses integers") {
  const Tensor x = arange(0, 6, 0.5, DType::float64);
  const auto snake = [](const Tensor& x) { return elementwise(Snake{2}, x); };
  const Tensor want = snake(x);
  CHECK(snake(transpose(reshape(x, {3, 4}))).values() == transpose(reshape(want, {3, 4})).values());
  CHECK(snake(expand(slice(x, 0, 3, 4), {5})).values() == std::vector<double>(5, want.values()[3]));
  CHECK(snake(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(snake(Tensor(0.0)).values() == std::vector<double>{0});
  CHECK_THROWS_WITH(snake(zeros({2}, DType::int64)), doctest::Contains("snake"));
}

TEST_CASE("a tape that asks for more than third derivatives of a formula is refused") {
  Tape tape({.order = 4});
  const Tensor x = tape.watch(Tensor(0.5));
  Tensor y = elementwise(Snake{2}, x);
  for (int order = 1; order <= 2; ++order) y = tape.gradient(y, {x}, Keep::yes)[0];
  CHECK_THROWS_WITH(tape.gradient(y, {x}),
                    doctest::Contains("snake: a formula is differentiated on tapes of order 3 at most"));
}
