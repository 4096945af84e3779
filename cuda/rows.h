// For kernels over the last axis, with contiguous rows: one block per row.
//
// Some kernels read their row two or more times; only the first read should come from memory. An
// H200 has 132 multiprocessors. With four blocks of 512 threads each, it processes 528 rows at a
// time. Rows of 32 KB are then 17 MB and stay in the cache of 60 MB. Rows of 50257 float32 are 106
// MB, and would come from memory at every read. So a block holds longer rows in its 227 KB of
// shared memory; that row takes 201 KB. If there is no room for all rows of a block, the block uses
// all shared memory and is alone on its multiprocessor. Then only 132 of the remaining rows are in
// use, 27 MB, which the cache holds.
#pragma once

#include <algorithm>

#include "cuda/block.h"
#include "cuda/instructions/async_copy.h"
#include "cuda/strided.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

/// The first element of this block's row; rows are n elements apart.
__device__ inline int64_t row_begin(int64_t n) { return int64_t{blockIdx.x} * n; }

/// Calls f(Type<S>{}, rows, n), for one block per row, unless x is empty.
template <class F>
void visit_rows(const char* kernel, const Tensor& x, F&& f) {
  if (x.numel() == 0) return;
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const unsigned blocks = grid_of(rows, kernel, "rows");
  visit_device_floating(x.dtype(), kernel, [&](auto type) { f(type, blocks, n); });
}

/// The number of threads of kernels that hold rows: enough to keep a multiprocessor busy with one
/// block.
inline constexpr unsigned kMostHolding = 1024;

/// Bytes of rows per block that the cache can hold for all blocks that run at a time.
inline constexpr int64_t kCachedBytes = 32 << 10;

/// Threads and dynamic shared memory of a block of a kernel that reads rows more than once.
struct Holding {
  unsigned threads, shared;
};

/// The Holding of kKernel, for `rows` rows of n elements of type S per block. The kernel gets
/// `shared` as an argument, for rows_in_registers.
template <auto kKernel, class S>
Holding holding_for(int64_t n, int rows) {
  const int64_t bytes =
      rows * (n * static_cast<int64_t>(sizeof(S)) + 2 * kVectorBytes);  // with gaps between them
  if (bytes <= kCachedBytes) return {threads_for(n), 0};
  const auto most = static_cast<int64_t>(allow_shared<kKernel>());
  // With half of the threads, two blocks run on a multiprocessor: one copies while the other
  // computes.
  const unsigned threads = bytes <= most / 2 ? kMostHolding / 2 : kMostHolding;
  return {threads, static_cast<unsigned>(std::min(bytes, most))};
}

/// Copies rows of n elements into this block's shared memory of `shared` bytes, and makes `row`
/// point there. A row for which there is no room stays where it is. The copy has the same alignment
/// modulo 16 bytes as the original.
template <class... S>
__device__ void rows_in_registers(unsigned shared, int64_t n, const S*&... row) {
  if (shared == 0) return;
  VITRINE_DYNAMIC_SHARED(unsigned char, room);
  AsyncCopies copies;  // all copies of the row are in flight at the same time
  int64_t used = 0;
  const auto hold = [&]<class T>(const T*& row) {
    const int64_t begin = used + static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % kVectorBytes);
    const int64_t end = begin + n * static_cast<int64_t>(sizeof(T));
    if (end > int64_t{shared}) return;
    T* const held = reinterpret_cast<T*>(room + begin);
    const auto copy = [&, from = row](int64_t i, auto lanes) {
      if constexpr (lanes * sizeof(T) == kVectorBytes)
        copies.copy16(held + i, from + i, kVectorBytes);
      else
        store(held + i, load<lanes>(from + i));
    };
    for_each_vector(n, copy, row);
    row = held;
    used = (end + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  };
  (hold(row), ...);
  copies.commit();
  copies.wait<0>();
  __syncthreads();
}

}  // namespace vitrine::cuda
