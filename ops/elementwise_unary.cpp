// The elementwise primitives of one operand.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace vitrine {
namespace {

constexpr double kTwoOverSqrtPi = 1.1283791670955126;

/// bool counts as int64 in arithmetic.
Tensor number(const Tensor& x) { return x.dtype() == DType::boolean ? cast(x, DType::int64) : x; }

}  // namespace

Tensor neg(const Tensor& x0) {
  const Tensor x = number(x0);
  return record("neg", {x}, run_unary(Unary::neg, x), [](const Tensor& dy) -> Grads { return {neg(dy)}; });
}
Tensor abs(const Tensor& x) {
  return primitive(Unary::abs, number(x), [](const Tensor& x, const Tensor&) { return sign(x); });
}
Tensor sign(const Tensor& x) { return record_cut("sign", x, run_unary(Unary::sign, number(x))); }
Tensor square(const Tensor& x) {
  return primitive(Unary::square, number(x), [](const Tensor& x, const Tensor&) { return 2 * x; });
}
Tensor reciprocal(const Tensor& x) {
  return primitive(Unary::reciprocal, floating(x),
                   [](const Tensor& x, const Tensor&) { return neg(pow(x, -2)); });
}
Tensor sqrt(const Tensor& x) {
  return primitive(Unary::sqrt, floating(x), [](const Tensor& x, const Tensor&) { return 0.5 * rsqrt(x); });
}
Tensor rsqrt(const Tensor& x) {
  return primitive(Unary::rsqrt, floating(x),
                   [](const Tensor& x, const Tensor&) { return -0.5 * rsqrt(x) / x; });
}
Tensor exp(const Tensor& x) {
  return primitive(Unary::exp, floating(x), [](const Tensor& x, const Tensor&) { return exp(x); });
}
Tensor expm1(const Tensor& x) {
  return primitive(Unary::expm1, floating(x), [](const Tensor& x, const Tensor&) { return exp(x); });
}
Tensor log(const Tensor& x) {
  return primitive(Unary::log, floating(x), [](const Tensor& x, const Tensor&) { return reciprocal(x); });
}
Tensor log1p(const Tensor& x) {
  return primitive(Unary::log1p, floating(x),
                   [](const Tensor& x, const Tensor&) { return reciprocal(1 + x); });
}
Tensor sin(const Tensor& x) {
  return primitive(Unary::sin, floating(x), [](const Tensor& x, const Tensor&) { return cos(x); });
}
Tensor cos(const Tensor& x) {
  return primitive(Unary::cos, floating(x), [](const Tensor& x, const Tensor&) { return neg(sin(x)); });
}
Tensor tanh(const Tensor& x) {
  return primitive(Unary::tanh, floating(x),
                   [](const Tensor& x, const Tensor&) { return 1 - square(tanh(x)); });
}
Tensor erf(const Tensor& x) {
  return primitive(Unary::erf, floating(x),
                   [](const Tensor& x, const Tensor&) { return kTwoOverSqrtPi * exp(neg(square(x))); });
}
Tensor sigmoid(const Tensor& x) {
  return primitive(Unary::sigmoid, floating(x),
                   [](const Tensor& x, const Tensor&) { return sigmoid(x) * sigmoid(neg(x)); });
}

Tensor clamp(const Tensor& x, double low, double high) {
  check(low <= high, "clamp: the lower bound {} is above the upper bound {}", low, high);
  if (!is_floating(x.dtype())) {
    // An infinite bound is no bound; other bounds must be whole numbers.
    for (double bound : {low, high})
      check(std::isinf(bound) || bound == std::floor(bound),
            "clamp: the bound {} is not whole, but x is {}; cast it to a floating dtype first", bound,
            describe(x));
    const Tensor below = std::isinf(high) ? number(x) : minimum(x, high);
    return std::isinf(low) ? below : maximum(below, low);
  }
  const Tensor y = run_unary(Unary::clamp, x, low, high);
  return record("clamp", {x}, y, [low, high, x = Saved(x)](const Tensor& dy) -> Grads {
    const Tensor inside = logical_and(greater_equal(x, full({}, low, x->dtype(), x->device())),
                                      less_equal(x, full({}, high, x->dtype(), x->device())));
    return {where(inside, dy, 0)};
  });
}

}  // namespace vitrine
