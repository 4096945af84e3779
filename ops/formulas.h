// The elementwise functions by name, and their formulas for scalars (host and device).
#pragma once

#include <cstdint>

#include "core/math.h"

// The name of the function and the type of its formula (ops/formulas-inl.h).
// clang-format off
#define VITRINE_UNARY_FORMULAS(X)                                                                    \
  X(neg, Neg) X(abs, Abs) X(sign, Sign) X(square, Square) X(reciprocal, Reciprocal)                  \
  X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(exp, Exp) X(expm1, Expm1) X(log, Log) X(log1p, Log1p)              \
  X(sin, Sin) X(cos, Cos) X(tanh, Tanh) X(erf, Erf) X(sigmoid, Sigmoid)                              \
  X(relu, Relu) X(leaky_relu, LeakyRelu) X(gelu, Gelu) X(gelu_tanh, GeluTanh) X(silu, Silu)          \
  X(elu, Elu) X(elu_plus_one, EluPlusOne) X(softplus, Softplus) X(softsign, Softsign)                \
  X(clamp, Clamp) X(hardswish, Hardswish) X(mish, Mish) X(affine, Affine)
// clang-format on

#define VITRINE_BINARY_FORMULAS(X) \
  X(add, Add) X(sub, Sub) X(mul, Mul) X(div, Div) X(maximum, Maximum) X(minimum, Minimum) X(pow, Pow)

namespace vitrine {

#define VITRINE_ENUMERATOR(name, formula) name,
enum class Unary : uint8_t { VITRINE_UNARY_FORMULAS(VITRINE_ENUMERATOR) };
enum class Binary : uint8_t { VITRINE_BINARY_FORMULAS(VITRINE_ENUMERATOR) };
#undef VITRINE_ENUMERATOR
enum class Comparison : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
enum class Logic : uint8_t { logical_and, logical_or, logical_xor };

/// The op's name in C++.
const char* name(Unary op);
const char* name(Binary op);

namespace formula {
using namespace math;
#include "ops/formulas-inl.h"
#include "ops/formulas_recurrent-inl.h"
#include "ops/formulas_wkv-inl.h"

/// A formula with its parameters, if it has any.
template <class F>
VITRINE_HD F make([[maybe_unused]] double a, [[maybe_unused]] double b) {
  if constexpr (sizeof(F) == 2 * sizeof(double)) {
    return F{a, b};
  } else {
    return F{};
  }
}
}  // namespace formula

/// Calls f with the scalar formula of `op` and its parameters.
template <class F>
void visit_formula(Unary op, double a, double b, F&& f) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Unary::name: return f(formula::make<formula::Formula>(a, b));
    VITRINE_UNARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
}
template <class F>
void visit_formula(Binary op, F&& f) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Binary::name: return f(formula::Formula{});
    VITRINE_BINARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
}

}  // namespace vitrine
