// The kernels that tensors and the tape themselves need. The kernels of the operations are in
// ops/kernels.h.
#pragma once

#include "core/kernel_macros.h"
#include "core/philox.h"

namespace vitrine {

/// y = value, everywhere; y may have any strides.
VITRINE_KERNEL(fill, Tensor& y, double value);
/// y[i] = start + i·step, computed in float64 and converted to y's dtype, for a contiguous vector
/// y.
VITRINE_KERNEL(arange, Tensor& y, double start, double step);
/// y = x, converted to y's dtype (to nearest; a float to an integer truncates). Equal shapes, any
/// strides.
VITRINE_KERNEL(copy, Tensor& y, const Tensor& x);
/// The halves of a float32 x (core/halves.h): high bfloat16, low uint8 [numel, 2]. All contiguous,
/// in the order of x's elements.
VITRINE_KERNEL(split_halves, Tensor& high, Tensor& low, const Tensor& x);
/// x from its halves, the inverse.
VITRINE_KERNEL(join_halves, Tensor& x, const Tensor& high, const Tensor& low);
/// y += x, converted to y's dtype. Equal shapes, any strides, but each element of y only once.
VITRINE_KERNEL(accumulate, Tensor& y, const Tensor& x);
/// y[i, …] = x[rows[i], …] for a contiguous x of rank ≥ 1. rows: 1-D int64 or int32. Indices are
/// checked on the CPU; on a GPU the ops check them.
VITRINE_KERNEL(gather_rows, Tensor& y, const Tensor& x, const Tensor& rows);
/// y[rows[i], …] += x[i, …], in the order of i, so that the result never depends on the number of
/// threads. A row of 16 bits is summed in float32 and rounded once.
VITRINE_KERNEL(accumulate_rows, Tensor& y, const Tensor& x, const Tensor& rows);
/// y[rows[i], …] = 0 for a contiguous y.
VITRINE_CPU_KERNEL(clear_rows, Tensor& y, const Tensor& rows);
/// finite[0] (bool) = every element of x is finite.
VITRINE_KERNEL(all_finite, Tensor& finite, const Tensor& x);
/// Contiguous copy between the CPU and a GPU, or between GPUs; equal dtypes. Without `wait` the
/// function returns before the copy is done; the copy is ordered on the GPU's current stream.
VITRINE_KERNEL(transfer, Tensor& y, const Tensor& x, bool wait);
/// y = low + (high − low)·u with u uniform in [0, 1): element i from Philox counter draw.offset +
/// i/4 (see core/philox.h).
VITRINE_KERNEL(random_uniform, Tensor& y, Draw draw, double low, double high);
/// y = mean + deviation·z with z standard normal (Box and Muller): element i from Philox counter
/// draw.offset + i/4.
VITRINE_KERNEL(random_normal, Tensor& y, Draw draw, double mean, double deviation);

/// y[i] = low + k with k uniform in [0, count), from Philox counter draw.offset + i, for a
/// contiguous int64 y.
VITRINE_KERNEL(random_whole, Tensor& y, Draw draw, int64_t low, int64_t count);

}  // namespace vitrine
