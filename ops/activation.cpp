#include "ops/activation.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/operands.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace vitrine {

Tensor define::relu(const Tensor& x) {
  return where(less(x, zeros_like(x)), zeros_like(x), x) * cast(not_equal(x, zeros_like(x)), x.dtype());
}
Tensor relu(const Tensor& x) {
  if (x.dtype() == DType::boolean) return relu(cast(x, DType::int64));
  if (is_integer(x.dtype())) return run_unary(Unary::relu, x);
  if (const auto y = through_definition({x}, [&] { return define::relu(x); })) return *y;
  return recorded_unary(Unary::relu, x);
}

Tensor define::leaky_relu(const Tensor& x, double slope) {
  return where(greater(x, zeros_like(x)), x, slope * x);
}
Tensor leaky_relu(const Tensor& x, double slope) {
  if (const auto y = through_definition({x}, [&] { return define::leaky_relu(x, slope); })) return *y;
  return recorded_unary(Unary::leaky_relu, x, slope);
}

Tensor define::gelu(const Tensor& x) { return 0.5 * x * (1 + erf(x / std::sqrt(2.0))); }
Tensor gelu(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::gelu(x); })) return *y;
  return recorded_unary(Unary::gelu, x);
}

Tensor define::gelu_tanh(const Tensor& x) {
  return 0.5 * x * (1 + tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
Tensor gelu_tanh(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::gelu_tanh(x); })) return *y;
  return recorded_unary(Unary::gelu_tanh, x);
}

Tensor define::silu(const Tensor& x) { return x * sigmoid(x); }
Tensor silu(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::silu(x); })) return *y;
  return recorded_unary(Unary::silu, x);
}

Tensor define::elu(const Tensor& x, double alpha) {
  const Tensor zero = zeros_like(x), above = greater(x, zero);
  return where(above, x, alpha * expm1(where(above, zero, x)));
}
Tensor elu(const Tensor& x, double alpha) {
  if (const auto y = through_definition({x}, [&] { return define::elu(x, alpha); })) return *y;
  return recorded_unary(Unary::elu, x, alpha);
}

Tensor define::elu_plus_one(const Tensor& x) {
  const Tensor zero = zeros_like(x), below = less(x, zero);
  return where(below, exp(where(below, x, zero)), 1 + x);
}
Tensor elu_plus_one(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::elu_plus_one(x); })) return *y;
  return recorded_unary(Unary::elu_plus_one, x);
}

/// Computed from e^−|x|. At 0 the left half applies, so that the slope is ½ there.
Tensor define::softplus(const Tensor& x) {
  const Tensor minus_abs = where(greater(x, zeros_like(x)), neg(x), x);
  return vitrine::relu(x) + log1p(exp(minus_abs));
}
Tensor softplus(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::softplus(x); })) return *y;
  return recorded_unary(Unary::softplus, x);
}

Tensor define::softsign(const Tensor& x) { return x / (1 + abs(x)); }
Tensor softsign(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::softsign(x); })) return *y;
  return recorded_unary(Unary::softsign, x);
}

Tensor define::hardswish(const Tensor& x) { return x * clamp(x / 6 + 0.5, 0, 1); }
Tensor hardswish(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::hardswish(x); })) return *y;
  return recorded_unary(Unary::hardswish, x);
}

Tensor define::mish(const Tensor& x) { return x * tanh(vitrine::softplus(x)); }
Tensor mish(const Tensor& x) {
  if (const auto y = through_definition({x}, [&] { return define::mish(x); })) return *y;
  return recorded_unary(Unary::mish, x);
}

Tensor swiglu(const Tensor& x) {
  check_floating("swiglu", "x", x);
  check(x.rank() >= 1 && x.size(-1) % 2 == 0, "swiglu: the last axis of {} must have an even size",
        x.shape());
  const int64_t half = x.size(-1) / 2;
  return silu(slice(x, -1, 0, half)) * slice(x, -1, half);
}

}  // namespace vitrine
