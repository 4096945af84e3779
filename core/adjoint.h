// Differentiable linear operations with which a recorded backward pass adds gradients up. The
// backward of each one is another one of them.
#pragma once

#include "core/grad.h"

namespace vitrine::adjoint {

/// x + y of equal shape. Recorded as "add".
Tensor add(const Tensor& x, const Tensor& y);
/// x converted to `dtype`, contiguous. Recorded as "cast".
Tensor cast(const Tensor& x, DType dtype);
/// The region of x (made contiguous first). Recorded as "region"; its adjoint is embed.
Tensor region(const Tensor& x, const Region& region);
/// Zeros of `shape` with x in the region. Recorded as "embed"; its adjoint is region.
Tensor embed(const Tensor& x, const Region& region, const Shape& shape);
/// Rows of x along its first axis. Recorded as "take_rows"; its adjoint is put_rows.
Tensor take_rows(const Tensor& x, const Tensor& rows);
/// Zeros of `shape` with row i of x added to row rows[i]. Recorded as "put_rows"; its adjoint is
/// take_rows.
Tensor put_rows(const Tensor& x, const Tensor& rows, const Shape& shape);

}  // namespace vitrine::adjoint
