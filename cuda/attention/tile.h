// Attention tile by tile: which data its kernels keep in registers and shared memory.
//
// A block of threads holds a tile of rows (queries; or keys, in the kernel of the key gradients),
// and goes through 32 rows of the other side at a time. A warp owns 16 or 32 rows. Its lanes share
// an accumulator of these rows × 32 numbers, in the layout of tensor cores: lane l holds rows l/4
// and l/4 + 8 of each 16 rows, and columns 2·(l % 4) and the next of each eight columns. So a row
// belongs to four neighbouring lanes, which compute its largest element and its sum without shared
// memory.
#pragma once

#include "core/tensor.h"
#include "cuda/block.h"
#include "cuda/instructions/async_copy.h"

namespace vitrine::cuda {

inline constexpr int kAccumulatorColumns = 32;

/// A lane's share of 16·kHeight × 32 numbers.
template <class T, int kHeight = 1>
struct Accumulator {
  T at[kHeight][kAccumulatorColumns / 8][4] = {};
};

/// The position of an element in an accumulator, and its index among the lane's 2·kHeight rows.
struct Coordinates {
  int own, row, column;
};

template <class T>
inline constexpr int kUnrolledBlocks = sizeof(T) == 8 ? 1 : kAccumulatorColumns / 8;

/// Calls f(coordinates, element of each accumulator) for all elements of this lane. All loops over
/// accumulators are unrolled, because registers cannot be indexed at run time. float64 stays in
/// memory, with loops, which compile in a fraction of the time.
template <class F, class T, int kHeight, class... Accumulators>
__device__ void each(F&& f, Accumulator<T, kHeight>& accumulator, Accumulators&... others) {
  const int lane = threadIdx.x % kWarp, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
  for (int r = 0; r < kHeight; ++r)
#pragma unroll kUnrolledBlocks < T>
    for (int block = 0; block < kAccumulatorColumns / 8; ++block)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        f(Coordinates{2 * r + e / 2, 16 * r + row + e / 2 * 8, 8 * block + column + e % 2},
          accumulator.at[r][block][e], others.at[r][block][e]...);
}

/// Merges the values of the four lanes that share a row. Each of these lanes gets the result.
template <class T, class Merge>
__device__ T merge_row(T mine, Merge merge) {
  return merge_warp(mine, merge, 4);
}

/// Rows of a matrix in memory, `stride` elements apart.
template <class T>
struct HeadMatrix {
  T* data;
  int64_t stride;
  bool aligned;  // each row begins at a multiple of 16 bytes
  __device__ T* row(int64_t i) const { return data + i * stride; }
};

/// A tensor [B, H, T, ·], or none.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, column = 0;
  bool aligned = false;

  static Heads of(const Tensor& x) {
    if (!x.defined()) return {};
    const auto& strides = x.strides();
    bool aligned = reinterpret_cast<uintptr_t>(x.data<T>()) % 16 == 0;
    for (int axis = 0; axis < 3; ++axis)
      aligned = aligned && strides[axis] * static_cast<int64_t>(sizeof(T)) % 16 == 0;
    return {x.data<T>(), strides[0], strides[1], strides[2], strides[3], aligned};
  }
  __device__ HeadMatrix<T> rows(int b, int h) const { return {data + b * batch + h * head, row, aligned}; }
};

/// A matrix in shared memory. Its columns are padded to whole accumulators. The stride of the rows
/// has 16 additional bytes, so that the eight rows that a warp reads at a time are in different
/// banks.
template <class T>
struct SharedMatrix {
  static constexpr int kChunk = 16 / sizeof(T);  // elements that are copied at once
  T* data;
  int rows, stride;

  static VITRINE_HD int stride_of(int columns) {
    return (columns + kAccumulatorColumns - 1) / kAccumulatorColumns * kAccumulatorColumns + kChunk;
  }
  __device__ T* row(int i) const { return data + i * stride; }
  /// The same bytes as elements of another dtype of the same size.
  template <class V>
  __device__ SharedMatrix<V> as() const {
    static_assert(sizeof(V) == sizeof(T));
    return {reinterpret_cast<V*>(data), rows, stride};
  }
  /// Rows 32·number to 32·number + 31.
  __device__ SharedMatrix part(int number) const {
    return {row(number * kAccumulatorColumns), kAccumulatorColumns, stride};
  }

  /// Begins to copy rows [first, last) of x. Rows and columns after them become 0. Eight lanes copy
  /// 128 bytes of a row, which are in all banks.
  __device__ void load(AsyncCopies& copies, const HeadMatrix<T>& x, int first, int last, int columns) const {
    for (int r = threadIdx.x / 8; r < rows; r += blockDim.x / 8)
      for (int c = threadIdx.x % 8 * kChunk; c < stride - kChunk; c += 8 * kChunk) {
        const int left = first + r < last && c < columns ? columns - c : 0;
        const int inside = left < kChunk ? left : kChunk;
        const T* const from = inside == 0 ? x.data : x.row(first + r) + c;
        T* const to = row(r) + c;
        if (x.aligned) {
          copies.copy16(to, from, inside * static_cast<int>(sizeof(T)));
        } else {
          for (int e = 0; e < kChunk; ++e) to[e] = e < inside ? from[e] : T(0);
        }
      }
  }
};

/// For j = first, first + step, … below `last`: calls load(j) and, when its data have arrived for
/// all threads, use(j). With two stages the next block is loaded at the same time. Before the first
/// load, all threads have finished their reads of shared memory.
template <int kStages, class Load, class Use>
__device__ void pipeline(AsyncCopies& copies, int first, int last, int step, Load&& load, Use&& use) {
  const auto start = [&](int j) {
    if (j < last) load(j);
    copies.commit();
  };
  __syncthreads();
  if (kStages == 2) start(first);
  for (int j = first; j < last; j += step) {
    if (kStages == 1) start(j);
    copies.template wait<0>();
    __syncthreads();
    if (kStages == 2) start(j + step);
    use(j);
    if (kStages == 1) __syncthreads();
  }
  copies.template wait<0>();
}

/// Allocates from a block's dynamic shared memory. On the host, without memory, it counts the bytes
/// that a kernel will use.
class SharedArena {
 public:
  VITRINE_HD explicit SharedArena(char* data = nullptr) : data_(data) {}
  template <class T>
  VITRINE_HD T* take(int count) {
    T* const begin = data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + used_);
    used_ += (count * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
    return begin;
  }
  template <class T>
  VITRINE_HD SharedMatrix<T> matrix(int rows, int columns) {
    const int stride = SharedMatrix<T>::stride_of(columns);
    return {take<T>(rows * stride), rows, stride};
  }
  size_t bytes() const { return static_cast<size_t>(used_); }

 private:
  char* data_;
  int used_ = 0;
};

/// The bytes that a Memory, constructed from a SharedArena and these arguments, will use.
template <class Memory, class... Arguments>
size_t bytes_of(const Arguments&... arguments) {
  SharedArena arena;
  const Memory memory(arena, arguments...);
  return arena.bytes();
}

/// Stores a warp's accumulator so that all its lanes can read it. `rows` is the first of its rows
/// in a tile.
template <class T, int kHeight>
__device__ void share(T* rows, int stride, Accumulator<T, kHeight>& accumulator) {
  __syncwarp();  // all lanes have read the old values
  each([&](Coordinates at, T& x) { rows[at.row * stride + at.column] = x; }, accumulator);
  __syncwarp();
}

}  // namespace vitrine::cuda
