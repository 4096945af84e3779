// Rows of elementwise ops.
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

Op unary(const std::string& name, Tensor (*f)(const Tensor&), Domain domain = {}) {
  return {name,
          name + "($0)",
          same,
          [f](const Values& x, const Params&) { return f(x[0]); },
          {std::move(domain)}};
}

Op binary(const std::string& name, const std::string& text, Tensor (*f)(const Tensor&, const Tensor&),
          Domain first = {}, Domain second = {}) {
  return {name,
          text,
          broadcasting,
          [f](const Values& x, const Params&) { return f(x[0], x[1]); },
          {std::move(first), std::move(second)}};
}

/// An op with a number between `low` and `high`.
Op with_number(const std::string& name, const std::string& text, double low, double high,
               const std::function<Tensor(const Tensor&, double)>& f, Domain domain = {}) {
  return {name,
          text,
          [low, high](Choice& choice, const Shape& x) -> std::optional<Fit> {
            return Fit{{x}, {.numbers = {choice.number(low, high)}}};
          },
          [f](const Values& x, const Params& p) { return f(x[0], p.numbers[0]); },
          {std::move(domain)}};
}

/// The pair is nowhere closer than the margin.
bool operands_apart(const Values& x, const Params&) {
  for (const double v : (x[0] - x[1]).values())
    if (std::abs(v) < kMargin) return false;
  return true;
}

std::optional<Fit> even_last(Choice&, const Shape& x) {
  if (x.rank() == 0 || x.back() % 2 != 0) return std::nullopt;
  return Fit{{x}};
}

std::optional<Fit> condition_and_two(Choice& choice, const Shape& x) {
  auto fit = broadcasting(choice, x);
  fit->operands.insert(fit->operands.begin(), broadcasting(choice, x)->operands[1]);
  return fit;
}

}  // namespace

std::vector<Op> elementwise_ops() {
  const Domain positive{0.3, 8}, away{-10, 10, {0}}, moderate{-3, 3};
  std::vector<Op> ops = {
      unary("neg", neg),
      unary("abs", abs, away),
      unary("square", square, moderate),
      unary("reciprocal", reciprocal, {0.4, 8}),
      unary("sqrt", sqrt, positive),
      unary("rsqrt", rsqrt, positive),
      unary("exp", exp, {-8, 2}),
      unary("expm1", expm1, {-8, 2}),
      unary("log", log, positive),
      unary("log1p", log1p, {-0.6, 8}),
      unary("sin", sin),
      unary("cos", cos),
      unary("tanh", tanh),
      unary("erf", erf),
      unary("sigmoid", sigmoid),
      unary("relu", relu, away),
      unary("gelu", gelu),
      unary("gelu_tanh", gelu_tanh),
      unary("silu", silu),
      unary("elu_plus_one", elu_plus_one, away),
      unary("softplus", softplus, away),
      unary("softsign", softsign, away),
      unary("hardswish", hardswish, {-10, 10, {-3, 3}}),
      unary("mish", mish, away),
      {"swiglu", "swiglu($0)", even_last, [](const Values& x, const Params&) { return swiglu(x[0]); }},
      with_number("leaky_relu", "leaky_relu($0, ~0)", 0.05, 0.5, leaky_relu, away),
      with_number("elu", "elu($0, ~0)", 0.5, 2, elu, away),
      with_number("add_scalar", "$0 + ~0", -2, 2, [](const Tensor& x, double c) { return x + c; }),
      with_number("add_scalar", "~0 - $0", -2, 2, [](const Tensor& x, double c) { return c - x; }),
      with_number("mul_scalar", "$0 * ~0", -1.5, 1.5, [](const Tensor& x, double c) { return x * c; }),
      with_number("mul_scalar", "$0 / ~0", 0.6, 3, [](const Tensor& x, double c) { return x / c; }),
      with_number("reciprocal", "~0 / $0", -2, 2, [](const Tensor& x, double c) { return c / x; }, {0.4, 8}),
      with_number("pow", "pow($0, ~0)", -2, 3, [](const Tensor& x, double c) { return pow(x, c); }, {0.4, 3}),
      {"clamp",
       "clamp($0, -1, 1.5)",
       same,
       [](const Values& x, const Params&) { return clamp(x[0], -1, 1.5); },
       {{-10, 10, {-1, 1.5}}}},
      binary("add", "$0 + $1", add),
      binary("sub", "$0 - $1", sub),
      binary("mul", "$0 * $1", mul, {-4, 4}, {-4, 4}),
      binary("div", "$0 / $1", div, {}, {0.4, 8}),
      binary("pow", "pow($0, $1)", pow, {0.4, 3}, {-2, 2}),
      binary("maximum", "maximum($0, $1)", maximum),
      binary("minimum", "minimum($0, $1)", minimum),
      {"where",
       "where($0 > 0, $1, $2)",
       condition_and_two,
       [](const Values& x, const Params&) {
         return where(greater(x[0], Tensor(0, x[0].dtype())), x[1], x[2]);
       },
       {away, {}}},
  };
  for (Op& op : ops)
    if (op.name == "maximum" || op.name == "minimum") op.holds = operands_apart;
  return ops;
}

}  // namespace vitrine::programs
