// What the scans of recurrences share. The state of a scan is a matrix, and a line is one column or
// one row of it. Neighbouring threads of one warp share a line: they keep its elements in
// registers for the whole scan, and add up their sums by exchanges within the warp. So a position
// needs no barrier. The operands of some positions, a tile, are copied into shared memory together:
// all lines of a block read them, and the barriers before and after the copy are for all positions
// of the tile.
#pragma once

#include <cmath>

#include "cuda/block.h"
#include "cuda/vector.h"

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
  int lines_per_block() const { return static_cast<int>(threads) / lanes; }
  /// Elements of a line, with those that do not exist.
  int width() const { return lanes * each; }
};

/// Positions of a tile: fewer if lines are long or elements wide, so that a tile fits into shared
/// memory.
template <int kEach, class T>
inline constexpr int kScanTile = kEach == ScanLanes::kMany   ? 4
                                 : sizeof(T) > sizeof(float) ? 8
                                                             : 16;
/// Positions of a tile whose states a thread holds in registers.
template <int kEach>
inline constexpr int kShortScanTile = kEach == ScanLanes::kMany ? 2 : 8;

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
/// kEach neighbouring ones from `first` on, of which `count` exist. A block has lines of one
/// matrix.
template <int kEach>
struct ScanPlace {
  int lanes, in_block, first, count;
  int64_t matrix, line;
  bool active;  ///< whether the line exists; threads without one take part in copies and exchanges

  __device__ ScanPlace(int lanes, int64_t lines, int64_t elements)
      : lanes(lanes), in_block(static_cast<int>(threadIdx.x) / lanes) {
    const int64_t per_block = blockDim.x / static_cast<unsigned>(lanes),
                  blocks = (lines + per_block - 1) / per_block;
    matrix = blockIdx.x / blocks;
    line = blockIdx.x % blocks * per_block + in_block;
    active = line < lines;
    first = static_cast<int>(threadIdx.x) % lanes * kEach;
    const int left = static_cast<int>(elements) - first;
    count = !active || left < 0 ? 0 : left < kEach ? left : kEach;
  }
  /// The first line of this block.
  __device__ int64_t first_line() const { return line - in_block; }
  __device__ bool writes() const { return active && first == 0; }

  /// Calls f(r, i) for each of this thread's elements: its number r, and its index i in the line.
  template <class F>
  __device__ void for_each(const F& f) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r)
      if (r < count) f(r, first + r);
  }
  /// Σ x[r]·y[r] over the elements of the line, for each of its threads. Products of elements that
  /// do not exist may be NaN, and are not added.
  template <class T, class X, class Y>
  __device__ T dot(const X& x, const Y& y) const {
    T mine = 0;
#pragma unroll
    for (int r = 0; r < kEach; ++r)
      if (r < count) mine = std::fma(x[r], y[r], mine);
    return sum(mine);
  }
  /// The sum over the threads of a line, for each of them.
  template <class T>
  __device__ T sum(T mine) const {
#pragma unroll
    for (int step = static_cast<int>(kWarp) / 2; step > 0; step /= 2)
      if (step < lanes) mine += lane_xor(mine, step);
    return mine;
  }
  /// The sum over the lines of a warp, of the threads with the same place in their line.
  template <class T>
  __device__ T sum_lines(T mine) const {
#pragma unroll
    for (int step = 1; step < static_cast<int>(kWarp); step *= 2)
      if (step >= lanes) mine += lane_xor(mine, step);
    return mine;
  }
};

/// The elements of a vector that belong to a thread's part of a line.
template <class T, int kEach>
struct ScanPart {
  Vector<T, kEach> x;
  __device__ T operator[](int r) const { return x.at[r]; }
};

/// Vectors of one operand in shared memory, one for each position of a tile.
template <class T>
struct ScanTile {
  T* data = nullptr;
  int width = 0;

  /// Takes room for `positions` vectors at `room`, which moves on. The width of vectors of parts is
  /// a multiple of kEach.
  __device__ ScanTile(T*& room, int positions, int width) : data(room), width(width) {
    room += positions * width;
  }
  __device__ T operator()(int t, int i) const { return data[t * width + i]; }
  template <int kEach>
  __device__ ScanPart<T, kEach> part(int t, const ScanPlace<kEach>& at) const {
    return {load<kEach>(data + t * width + at.first)};
  }
  /// Fills the vectors of positions 0 ≤ t < positions: finish(read(t, i)) for i < size, and 0 for
  /// size ≤ i. A thread reads several elements before it finishes the first one, so that all of
  /// them are on their way from memory at the same time.
  template <class Read, class Finish>
  __device__ void fill(int positions, int64_t size, const Read& read, const Finish& finish) const {
    constexpr int kDown = 4, kAcross = 2, kStep = static_cast<int>(kWarp);
    const int warps = static_cast<int>(blockDim.x / kWarp), first = static_cast<int>(threadIdx.x / kWarp);
    for (int top = first; top < positions; top += kDown * warps)
#pragma unroll 1
      for (int left = static_cast<int>(threadIdx.x % kWarp); left < width; left += kAcross * kStep) {
        const auto for_each = [&](const auto& f) {
#pragma unroll
          for (int down = 0; down < kDown; ++down)
#pragma unroll
            for (int across = 0; across < kAcross; ++across)
              f(down * kAcross + across, top + down * warps, left + across * kStep);
        };
        decltype(read(0, 0)) values[kDown * kAcross] = {};
        for_each([&](int k, int t, int i) {
          if (t < positions && i < size) values[k] = read(t, i);
        });
        for_each([&](int k, int t, int i) {
          if (t < positions && i < width) data[t * width + i] = i < size ? finish(values[k]) : T(0);
        });
      }
  }
  /// Copies the elements first, first + 1, … of rows of n elements, which are `apart`.
  template <class S>
  __device__ void copy(int positions, const S* rows, int64_t apart, int64_t first, int64_t n) const {
    rows += first;
    fill(
        positions, n - first, [&](int t, int i) { return rows[t * apart + i]; },
        [](S x) { return static_cast<T>(x); });
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
