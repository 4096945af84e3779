// Functions that the elementwise operations of one operand share.
#pragma once

#include "core/creation.h"
#include "core/record.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/view.h"

namespace vitrine {

/// Converts integers and bool to float32, for functions with fractional results.
inline Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::float32); }

/// y = f(x) by its formula, not recorded.
inline Tensor run_unary(Unary op, const Tensor& x, double a = 0, double b = 0) {
  if (x.dtype() == DType::uint8) return copy_as(run_unary(op, copy_as(x, DType::int32), a, b), DType::uint8);
  Tensor y = empty(x.shape(), x.dtype(), x.device());
  VITRINE_RUN_AS(name(op), unary, y, x, op, a, b);
  return y;
}

/// dx = dy·f'(x) by its formula, not recorded.
inline Tensor run_unary_backward(Unary op, const Tensor& dy, const Tensor& x, const Tensor& y, double a,
                                 double b) {
  Tensor dx = empty(x.shape(), x.dtype(), x.device());
  VITRINE_RUN(unary_backward, dx, dy, x, y, op, a, b);
  return dx;
}

/// A primitive: its backward is the formula's derivative or, if the backward is itself recorded,
/// `slope(x, y)` in recorded ops.
template <class Slope>
Tensor primitive(Unary op, const Tensor& x, Slope&& slope) {
  const Tensor y = run_unary(op, x);
  return record(name(op), {x}, y, [op, slope, x = Saved(x), y = Saved(y)](const Backward& b) -> Grads {
    if (b.recorded()) return {b.dy() * slope(x.get(), y.get())};
    return {run_unary_backward(op, b.dy(), x, y, 0, 0)};
  });
}

/// A function that has a definition, so its backward is only the formula's derivative.
inline Tensor recorded_unary(Unary op, const Tensor& x, double a = 0, double b = 0) {
  check_floating(name(op), "x", x);
  const Tensor y = run_unary(op, x, a, b);
  return record(name(op), {x}, y, [op, a, b, x = Saved(x), y = Saved(y)](const Tensor& dy) -> Grads {
    return {run_unary_backward(op, dy, x, y, a, b)};
  });
}

}  // namespace vitrine
