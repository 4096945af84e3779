// What the scans of recurrences share. The state of a scan is a matrix, and a line is one column or
// one row of it. Neighbouring threads of one warp share a line: they keep its elements in
// registers for the whole scan, and add up their sums by exchanges within the warp. So a position
// needs no barrier. The operands of some positions, a tile, are copied into shared memory together:
// all lines of a block read them, and the barriers before and after the copy are for all positions
// of the tile.
#pragma once

#include "cuda/block.h"

namespace vitrine::cuda {

/// How lines of n elements are shared: each of `lanes` threads, a power of two, holds at most
/// `each` elements, and a block has `threads`.
struct ScanLanes {
  int lanes = 1, each;
  unsigned threads;

  static constexpr int kMany = 32;  ///< elements of a thread, if `few` of them are not enough

  /// The smallest number of threads that hold n elements, `few` each; kMany each only if `most`
  /// threads are not enough. `argument` names n in the error. A block has `lines` lines, or if that
  /// is 0, 128 threads.
  static ScanLanes of(int64_t n, int few, int most, unsigned lines, const char* op, const char* argument) {
    check(n <= int64_t{kMany} * most,
          "{}: {} is too large for a GPU: {} elements, where {} threads hold {} at most", op, argument, n,
          most, kMany * most);
    ScanLanes all{1, n <= int64_t{few} * most ? few : kMany, 128};
    while (all.lanes * int64_t{all.each} < n) all.lanes *= 2;
    if (lines > 0) all.threads = lines * static_cast<unsigned>(all.lanes);
    return all;
  }
  int64_t lines_per_block() const { return threads / static_cast<unsigned>(lanes); }
};

/// Calls f with the number of elements per thread as a constant.
template <int kFew, class F>
void visit_each(const ScanLanes& lanes, F f) {
  if (lanes.each == kFew) {
    f(std::integral_constant<int, kFew>());
  } else {
    f(std::integral_constant<int, ScanLanes::kMany>());
  }
}

/// A thread's place: the matrix and the line in it, and which elements of the line it holds:
/// lane, lane + lanes, lane + 2·lanes and so on, `count` of them. A block has lines of one matrix.
struct ScanPlace {
  int lanes, lane, in_block, count;
  int64_t matrix, line;
  bool active;  ///< whether the line exists; threads without one take part in copies and exchanges

  __device__ ScanPlace(int lanes, int64_t lines, int64_t elements)
      : lanes(lanes),
        lane(static_cast<int>(threadIdx.x) % lanes),
        in_block(static_cast<int>(threadIdx.x) / lanes),
        count((static_cast<int>(elements) - lane + lanes - 1) / lanes) {
    const int64_t per_block = blockDim.x / static_cast<unsigned>(lanes),
                  blocks = (lines + per_block - 1) / per_block;
    matrix = blockIdx.x / blocks;
    line = blockIdx.x % blocks * per_block + in_block;
    active = line < lines;
    if (!active) count = 0;
  }
  /// The first line of this block.
  __device__ int64_t first_line() const { return line - in_block; }
  __device__ bool writes() const { return active && lane == 0; }

  /// Calls f(r, i) for each of this thread's elements: its number r among at most kEach, and its
  /// index i in the line.
  template <int kEach, class F>
  __device__ void for_each(const F& f) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r)
      if (r < count) f(r, lane + r * lanes);
  }
  /// The sum over the threads of a line, for each of them.
  template <class T>
  __device__ T sum(T mine) const {
    return merge_warp(
        mine, [](T x, T y) { return x + y; }, lanes);
  }
  /// The sum over the lines of a warp, of the threads with the same place in their line.
  template <class T>
  __device__ T sum_lines(T mine) const {
    for (int step = lanes; step < static_cast<int>(kWarp); step *= 2) mine += lane_xor(mine, step);
    return mine;
  }
};

/// Vectors of one operand in shared memory, one for each position of a tile.
template <class T>
struct ScanTile {
  T* data = nullptr;
  int64_t width = 0;

  /// Takes room for `positions` vectors at `room`, which moves on.
  __device__ ScanTile(T*& room, int positions, int64_t width) : data(room), width(width) {
    room += positions * width;
  }
  __device__ T operator()(int t, int64_t i) const { return data[t * width + i]; }
  /// Copies value(t, i) for all i and 0 ≤ t < positions; a warp copies a vector.
  template <class F>
  __device__ void fill(int positions, const F& value) const {
    for (int t = static_cast<int>(threadIdx.x / kWarp); t < positions;
         t += static_cast<int>(blockDim.x / kWarp))
      for (int64_t i = threadIdx.x % kWarp; i < width; i += kWarp) data[t * width + i] = value(t, i);
  }
};

/// Calls f(0), …, f(kCount − 1). If kUnroll, the calls are written one after the other, so that an
/// array with this index stays in registers.
template <int kCount, bool kUnroll, class F>
__device__ void repeat(const F& f) {
  if constexpr (kUnroll) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) f(i);
  } else {
#pragma unroll 1
    for (int i = 0; i < kCount; ++i) f(i);
  }
}

/// The number of positions of a tile, if `left` are left.
__device__ inline int positions_of(int64_t left, int tile) {
  return left < tile ? static_cast<int>(left) : tile;
}

/// Blocks for the lines of all matrices.
inline unsigned scan_blocks(int64_t matrices, int64_t lines, const ScanLanes& lanes, const char* op) {
  const int64_t per_block = lanes.lines_per_block();
  return grid_of(matrices * ((lines + per_block - 1) / per_block), op, "blocks of the state");
}

/// Bytes of shared memory for `elements` elements of T. `what` names what is too large, in the
/// error.
template <auto kKernel, class T>
unsigned scan_shared(int64_t elements, const char* op, const char* what) {
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(T));
  const size_t most = allow_shared<kKernel>();
  check(
      bytes <= static_cast<int64_t>(most),
      "{}: {} is too large for a GPU: the operands of a few positions take {} bytes of shared memory, of {}",
      op, what, bytes, most);
  return static_cast<unsigned>(bytes);
}

}  // namespace vitrine::cuda
