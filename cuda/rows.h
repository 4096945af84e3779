// For kernels over the last axis of contiguous tensors: one block a row.
#pragma once

#include "cuda/block.h"
#include "cuda/strided.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

/// Where this block's row of n elements begins.
__device__ inline int64_t row_begin(int64_t n) { return int64_t{blockIdx.x} * n; }

/// Calls f(Type<S>{}, rows, n, threads) with the sizes of a launch, unless x is empty.
template <class F>
void visit_rows(const char* kernel, const Tensor& x, F&& f) {
  if (x.numel() == 0) return;
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const unsigned blocks = grid_of(rows, kernel, "rows");
  visit_device_floating(x.dtype(), kernel, [&](auto type) { f(type, blocks, n, threads_for(n)); });
}

}  // namespace vitrine::cuda
