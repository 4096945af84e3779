#include "core/adjoint.h"

#include "core/creation.h"
#include "core/record.h"
#include "core/tensor_kernels.h"

namespace vitrine::adjoint {

Tensor add(const Tensor& x, const Tensor& y) {
  Tensor sum = copy_as(x, x.dtype());
  VITRINE_RUN(accumulate, sum, y);
  return record("add", {x, y}, sum, [](const Tensor& dy) -> Grads { return {dy, dy}; });
}

Tensor cast(const Tensor& x, DType dtype) {
  return record("cast", {x}, copy_as(x, dtype),
                [from = x.dtype()](const Tensor& dy) -> Grads { return {cast(dy, from)}; });
}

Tensor region(const Tensor& x, const Region& region) {
  const Tensor whole = x.is_contiguous() ? x : cast(x, x.dtype());
  return record("region", {whole}, whole.alias(region.shape, region.strides, region.offset),
                [region](const Tensor& dy) -> Grads { return {Grad::region(dy, region)}; });
}

Tensor embed(const Tensor& x, const Region& region, const Shape& shape) {
  Tensor whole = zeros(shape, x.dtype(), x.device());
  Tensor part = whole.alias(region.shape, region.strides, region.offset);
  VITRINE_RUN(copy, part, x);
  return record("embed", {x}, whole,
                [region](const Tensor& dy) -> Grads { return {adjoint::region(dy, region)}; });
}

Tensor take_rows(const Tensor& x, const Tensor& rows) {
  const Tensor whole = x.is_contiguous() ? x : cast(x, x.dtype());
  Shape shape = whole.shape();
  shape[0] = rows.size(0);
  Tensor y = empty(shape, whole.dtype(), whole.device());
  VITRINE_RUN(gather_rows, y, whole, rows);
  return record("take_rows", {whole}, y,
                [rows = Saved(rows)](const Tensor& dy) -> Grads { return {Grad::rows(dy, rows)}; });
}

Tensor put_rows(const Tensor& x, const Tensor& rows, const Shape& shape) {
  const Tensor part = x.is_contiguous() ? x : cast(x, x.dtype());
  Tensor whole = zeros(shape, part.dtype(), part.device());
  VITRINE_RUN(accumulate_rows, whole, part, rows);
  return record("put_rows", {part}, whole,
                [rows = Saved(rows)](const Tensor& dy) -> Grads { return {take_rows(dy, rows)}; });
}

}  // namespace vitrine::adjoint
