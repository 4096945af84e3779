// Attention tile by tile: what its kernels share.
//
// A block of threads holds a tile of rows (queries, in the kernel for the keys' gradients keys), and goes through the other side 32
// at a time. A warp owns 16 rows; its lanes share a piece of 16×32 numbers as tensor cores hand one out: lane l has the rows
// l/4 and l/4 + 8, and of each eight columns 2·(l % 4) and the next. So a row belongs to four neighbouring lanes, which find its
// largest element and its sum without shared memory.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/math.h"
#include "cuda/block.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {

inline constexpr int kPieceRows = 16, kPieceColumns = 32, kMostHeadSize = 256;

/// A lane's share of 16×32 numbers.
template <class T>
struct Piece {
  T at[kPieceColumns / 8][4] = {};
};

/// Where in a piece an element is, and which of the lane's two rows that is.
struct Place {
  int half, row, column;
};

/// Calls f(place, element of each piece) for all that this lane has. Unrolled, as all loops over pieces are: registers have no
/// index at run time.
template <class F, class... Pieces>
__device__ void each(F&& f, Pieces&... pieces) {
  const int lane = threadIdx.x % kWarp, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
  for (int block = 0; block < kPieceColumns / 8; ++block)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      f(Place{e / 2, row + e / 2 * 8, 8 * block + column + e % 2}, pieces.at[block][e]...);
}

/// Of the four lanes that have a row, known to each of them.
template <class T, class Merge>
__device__ T merge_row(T mine, Merge merge) {
  return merge_warp(mine, merge, 4);
}

/// Rows of a matrix in memory, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  __device__ T* row(int64_t i) const { return data + i * stride; }
};

/// A tensor [B, H, T, ·], or none.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, column = 0;

  static Heads of(const Tensor& x) {
    if (!x.defined()) return {};
    return {x.data<T>(), x.strides()[0], x.strides()[1], x.strides()[2], x.strides()[3]};
  }
  __device__ Rows<T> rows(int b, int h) const { return {data + b * batch + h * head, row}; }
};

/// A matrix in shared memory, whose columns are filled up to whole pieces. Rows lie 4 elements more apart, so that the eight
/// rows which a warp reads at a time are in different banks.
template <class T>
struct Tile {
  static constexpr int kGap = 4;
  T* data;
  int rows, stride;
  __device__ T* row(int i) const { return data + i * stride; }

  /// Copies rows [first, last) of x; 0 behind them and behind the columns.
  template <class S>
  __device__ void load(const Rows<S>& x, int first, int last, int columns) const {
    for (int r = threadIdx.x / kWarp; r < rows; r += blockDim.x / kWarp)
      for (int c = threadIdx.x % kWarp; c < stride - kGap; c += kWarp)
        row(r)[c] = first + r < last && c < columns ? static_cast<T>(x.row(first + r)[c]) : T(0);
  }
};

/// Hands out a block's dynamic shared memory; without any, on the host, it counts what a kernel will take.
template <class T>
class Arena {
 public:
  VITRINE_HD explicit Arena(T* data = nullptr) : data_(data) {}
  VITRINE_HD T* take(int count) {
    T* const begin = data_ == nullptr ? nullptr : data_ + used_;
    used_ += count;
    return begin;
  }
  VITRINE_HD Tile<T> tile(int rows, int columns) {
    const int stride = (columns + kPieceColumns - 1) / kPieceColumns * kPieceColumns + Tile<T>::kGap;
    return {take(rows * stride), rows, stride};
  }
  size_t bytes() const { return static_cast<size_t>(used_) * sizeof(T); }

 private:
  T* data_;
  int used_ = 0;
};

/// What a Memory, which is made from an Arena and these arguments, will take of it.
template <class Memory, class T, class... Arguments>
size_t bytes_of(const Arguments&... arguments) {
  Arena<T> arena;
  const Memory memory(arena, arguments...);
  return arena.bytes();
}

/// Stores a warp's piece for all its lanes to read; `rows`: where its rows begin in a tile.
template <class T>
__device__ void share(T* rows, int stride, Piece<T>& piece) {
  __syncwarp();  // what was there has been read
  each([&](Place at, T& x) { rows[at.row * stride + at.column] = x; }, piece);
  __syncwarp();
}

/// c += A·B over `depth`: A's 16 rows lie a_stride apart, B(k, n) = b[k·along + n·across].
template <class T>
__device__ void multiply(Piece<T>& c, const T* a, int a_stride, const T* b, int along, int across,
                         int depth) {
  const int lane = threadIdx.x % kWarp;
  a += lane / 4 * a_stride;
  b += lane % 4 * 2 * across;
  for (int k = 0; k < depth; ++k) {
    const T a0 = a[k], a1 = a[8 * a_stride + k];
#pragma unroll
    for (int block = 0; block < kPieceColumns / 8; ++block) {
      const T b0 = b[k * along + 8 * block * across], b1 = b[k * along + (8 * block + 1) * across];
      T(&sum)[4] = c.at[block];
      sum[0] += a0 * b0, sum[1] += a0 * b1, sum[2] += a1 * b0, sum[3] += a1 * b1;
    }
  }
}
/// With B = Mᵀ and with B = M, for a tile M whose first column is `column`.
template <class T>
__device__ void multiply_transposed(Piece<T>& c, const T* a, int a_stride, const Tile<T>& m, int depth) {
  multiply(c, a, a_stride, m.data, 1, m.stride, depth);
}
template <class T>
__device__ void multiply_by(Piece<T>& c, const T* a, int a_stride, const Tile<T>& m, int column) {
  multiply(c, a, a_stride, m.data + column, m.stride, 1, m.rows);
}

/// What makes a score of q·k, for one head after of_head().
template <class T>
struct Scores {
  int queries, keys;
  T scale, softcap;
  int64_t left, right;  // of the position: keys further away are hidden
  Heads<T> bias;
  Heads<bool> allowed;
  const T* slopes;
  T slope = 0;

  static Scores of(const Tensor& q, const Tensor& k, const Tensor& bias, const Tensor& slopes,
                   const Tensor& allowed, const AttentionForm& form) {
    return {static_cast<int>(q.size(2)),
            static_cast<int>(k.size(2)),
            static_cast<T>(form.scale),
            static_cast<T>(form.softcap),
            form.left,
            form.causal && form.right > 0 ? 0 : form.right,
            Heads<T>::of(bias),
            Heads<bool>::of(allowed),
            slopes.defined() ? slopes.data<T>() : nullptr};
  }

  __device__ Scores of_head(int b, int h) const {
    Scores s = *this;
    if (bias.data != nullptr) s.bias.data = bias.rows(b, h).data;
    if (allowed.data != nullptr) s.allowed.data = allowed.rows(b, h).data;
    if (slopes != nullptr) s.slope = slopes[h];
    return s;
  }
  __device__ static int clamp(int64_t x, int most) {
    return static_cast<int>(x < 0 ? 0 : x > most ? most : x);
  }
  __device__ int position(int i) const { return i + keys - queries; }
  /// Keys [first, last) that query i sees but for the mask, and queries [first, last) that see key j.
  __device__ int first_key(int i) const { return clamp(position(i) - left, keys); }
  __device__ int last_key(int i) const { return clamp(position(i) + right + 1, keys); }
  __device__ int first_query(int j) const { return clamp(j - right + queries - keys, queries); }
  __device__ int last_query(int j) const { return clamp(j + left + 1 + queries - keys, queries); }
  __device__ bool sees(int i, int j) const {
    return i < queries && j >= first_key(i) && j < last_key(i) &&
           (allowed.data == nullptr || allowed.data[i * allowed.row + j * allowed.column]);
  }

  /// The score of q·k; −∞ where it is hidden. `slope_of_cap`: the derivative of the softcap.
  __device__ T score(T product, int i, int j, T* slope_of_cap = nullptr) const {
    if (!sees(i, j)) return -static_cast<T>(INFINITY);
    T s = product * scale;
    if (softcap > T(0)) {
      const T t = math::tanh(s / softcap);
      if (slope_of_cap != nullptr) *slope_of_cap = T(1) - t * t;
      s = softcap * t;
    }
    if (bias.data != nullptr) s += bias.data[i * bias.row + j * bias.column];
    if (slopes != nullptr) s -= slope * static_cast<T>(math::abs(static_cast<T>(j - position(i))));
    return s;
  }
};

/// What every kernel of attention is given.
template <class S>
struct AttentionInputs {
  Heads<S> q, k, v;
  Scores<Wide<S>> scores;
  int size, channels;  // of a query or key, and of a value
  int group;           // query heads of a key head
  int tile;            // queries of a tile: LASER's anchors belong to one
  bool laser;
};

/// Rows of a tile of a side that has `count`: as many as fit into shared memory beside 32 of the other side.
template <class T>
int tile_rows(int64_t count, int size, int channels) {
  constexpr size_t kShared = 160 << 10;
  int rows = 64;
  const auto bytes = [&] {
    Arena<T> arena;
    for (const int height : {rows, kPieceColumns}) arena.tile(height, size), arena.tile(height, channels);
    return arena.bytes();
  };
  while (rows > kPieceRows && (bytes() > kShared || rows / 2 >= count)) rows /= 2;
  return rows;
}

/// A block a tile of the rows of x [B, H, T, ·], a warp for each 16 of them.
inline dim3 tile_grid(const Tensor& x, int tile) {
  return dim3(static_cast<unsigned>((x.size(2) + tile - 1) / tile), static_cast<unsigned>(x.size(1)),
              static_cast<unsigned>(x.size(0)));
}
inline unsigned tile_threads(int tile) { return static_cast<unsigned>(tile) / kPieceRows * kWarp; }

/// Calls f(Type<S>{}, inputs, pieces) where so many pieces, a compile-time number, hold a row of a head. With two such numbers
/// (float64 has one) each of three kernels is compiled seven times.
template <class F>
void visit_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                     const AttentionForm& form, F&& f) {
  const int64_t most = std::max(q.size(3), v.size(3));
  check(most <= kMostHeadSize, "{}: the heads have {} channels, its CUDA kernel wants {} at most", kernel,
        most, kMostHeadSize);
  check(q.size(2) < (1 << 30) && k.size(2) < (1 << 30) && q.size(0) <= 65535 && q.size(1) <= 65535,
        "{}: {} queries and {} keys of {} × {} heads are more than a grid of blocks holds", kernel, q.size(2),
        k.size(2), q.size(0), q.size(1));
  visit_device_floating(q.dtype(), kernel, [&](auto type) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    const auto size = static_cast<int>(q.size(3)), channels = static_cast<int>(v.size(3));
    const AttentionInputs<S> inputs{Heads<S>::of(q),
                                    Heads<S>::of(k),
                                    Heads<S>::of(v),
                                    Scores<T>::of(q, k, bias, slopes, allowed, form),
                                    size,
                                    channels,
                                    static_cast<int>(q.size(1) / k.size(1)),
                                    tile_rows<T>(q.size(2), size, channels),
                                    form.read == AttentionRead::laser};
    constexpr int kMost = kMostHeadSize / kPieceColumns;
    if constexpr (sizeof(T) == 4)
      if (most <= kMostHeadSize / 2) return f(type, inputs, std::integral_constant<int, kMost / 2>{});
    f(type, inputs, std::integral_constant<int, kMost>{});
  });
}

}  // namespace vitrine::cuda
