// For kernels over the last axis, of contiguous rows: one block a row.
//
// Some read their row twice or more, and what is read again should not come from memory again. Four
// blocks of 512 threads on each of an H200's 132 multiprocessors have 528 rows under way: rows of
// 32 KB are 17 MB and stay in its cache of 60 MB, rows of 50257 float32 are 106 MB, and each would
// come from memory as often as it is read. So a block holds longer rows in its shared memory, 227
// KB of it: that row takes 201 KB. Where it has no room for all of them, it takes all that there
// is, and is alone on its multiprocessor: of rows that stay outside, 132 are under way, which are
// 27 MB of that length.
#pragma once

#include <algorithm>

#include "cuda/block.h"
#include "cuda/instructions/async_copy.h"
#include "cuda/strided.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

/// Where this block's row begins, of rows that lie n elements apart.
__device__ inline int64_t row_begin(int64_t n) { return int64_t{blockIdx.x} * n; }

/// Calls f(Type<S>{}, rows, n), a block a row, unless x is empty.
template <class F>
void visit_rows(const char* kernel, const Tensor& x, F&& f) {
  if (x.numel() == 0) return;
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const unsigned blocks = grid_of(rows, kernel, "rows");
  visit_device_floating(x.dtype(), kernel, [&](auto type) { f(type, blocks, n); });
}

/// The most threads of kernels that hold rows: as many as one block can keep busy alone.
inline constexpr unsigned kMostHolding = 1024;

/// Bytes of rows that the cache holds for all blocks under way.
inline constexpr int64_t kCachedBytes = 32 << 10;

/// Threads and dynamic shared memory of a block of a kernel that reads rows more than once.
struct Holding {
  unsigned threads, shared;
};

/// Of kKernel, for `rows` rows of n elements of type S a block. The kernel gets `shared` as an
/// argument, for rows_in_registers.
template <auto kKernel, class S>
Holding holding_for(int64_t n, int rows) {
  const int64_t bytes =
      rows * (n * static_cast<int64_t>(sizeof(S)) + 2 * kVectorBytes);  // with gaps between them
  if (bytes <= kCachedBytes) return {threads_for(n), 0};
  allow_shared<kKernel>();
  return {kMostHolding, static_cast<unsigned>(std::min(bytes, static_cast<int64_t>(most_shared())))};
}

/// Copies rows of n elements to this block's shared memory, `shared` bytes, and makes `row` point
/// there; a row for which there is no room stays where it is. In both places it begins as far from
/// a multiple of 16 bytes.
template <class... S>
__device__ void rows_in_registers(unsigned shared, int64_t n, const S*&... row) {
  if (shared == 0) return;
  VITRINE_DYNAMIC_SHARED(unsigned char, room);
  AsyncCopies copies;  // the whole row is on its way at a time
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
