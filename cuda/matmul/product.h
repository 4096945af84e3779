// What a step of the ladder multiplies, and what all steps have in common: where operands lie, which tile of the result a
// block computes, and what happens to a sum before it is stored.
#pragma once

#include <cmath>
#include <type_traits>

#include "cuda/strided.h"
#include "ops/formulas.h"

namespace vitrine::cuda {

/// A batch of matrices where it lies; strides in elements.
struct Operand {
  int64_t row, column;        // of the last two axes: one is 1
  int64_t batch[Dims::kMax];  // of the leading axes of z; 0 along axes that are broadcast

  VITRINE_HD bool by_rows() const {
    return column == 1;
  }  // elements of a row are neighbours, else those of a column
  /// From one row, or one column, to the next.
  VITRINE_HD int64_t line() const { return by_rows() ? row : column; }
};

/// Whether every line of every matrix begins at a multiple of 16 bytes.
inline bool is_aligned(const Operand& o, const void* data, int64_t element_size) {
  bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && o.line() * element_size % 16 == 0;
  for (const int64_t stride : o.batch) aligned = aligned && stride * element_size % 16 == 0;
  return aligned;
}

/// z = x·y + bias, then GELU where asked for; or z += that, where `add`. x is [M, K], y [K, N], z [M, N], bias [N] or nullptr.
struct Product {
  DType dtype, out;  // of x, y and bias; of z, which may be wider
  int64_t M, N, K;
  int lead = 0;  // axes before the last two, of z
  int64_t sizes[Dims::kMax] = {};
  Operand x, y, z;
  const void *x_data, *y_data, *bias;
  void* z_data;
  bool add = false;
  bool gelu = false;  // x/2·(1 + tanh …), as formula::GeluTanh

  int64_t batch() const {
    int64_t count = 1;
    for (int axis = 0; axis < lead; ++axis) count *= sizes[axis];
    return count;
  }
};

/// Calls f(Type<S>{}, Type<SZ>{}) with the types of x and y, and of z.
template <class F>
void visit_types(const Product& p, F&& f) {
  if (is_integer(p.dtype)) return visit_index(p.dtype, "matmul", [&](auto type) { f(type, type); });
  visit_device_floating(p.dtype, "matmul", [&](auto type) {
    using S = typename decltype(type)::type;
    if constexpr (!std::is_same_v<S, Wide<S>>)
      if (p.out != p.dtype) return f(type, Type<Wide<S>>{});
    f(type, type);
  });
}

/// The matrices of one product of the batch.
template <class S, class SZ>
struct Matrices {
  const S *x, *y;
  SZ* z;

  __device__ Matrices(const Product& p, int64_t index)
      : x(static_cast<const S*>(p.x_data)),
        y(static_cast<const S*>(p.y_data)),
        z(static_cast<SZ*>(p.z_data)) {
    for (int axis = p.lead - 1; axis >= 0; --axis) {
      const int64_t at = index % p.sizes[axis];
      index /= p.sizes[axis];
      x += at * p.x.batch[axis], y += at * p.y.batch[axis], z += at * p.z.batch[axis];
    }
  }
};

/// How the results of a batch are cut into tiles, one a block.
struct Tiling {
  int64_t rows, columns;  // tiles of one matrix

  Tiling(const Product& p, int64_t tile_rows, int64_t tile_columns)
      : rows((p.M + tile_rows - 1) / tile_rows), columns((p.N + tile_columns - 1) / tile_columns) {}

  /// Blocks for a grid of one axis, the only one that is long.
  unsigned blocks(const Product& p) const {
    const int64_t count = p.batch() * rows * columns;
    check(count <= INT32_MAX, "matmul: {} matrices of [{}, {}] are more than a grid of blocks holds",
          p.batch(), p.M, p.N);
    return static_cast<unsigned>(count);
  }
};

struct Tile {
  int64_t batch, row, column;

  /// Blocks that run at the same time have neighbouring tiles: eight rows of tiles by some columns, which read the same parts
  /// of x and y, and find them in the L2 cache.
  __device__ static Tile of(int64_t block, const Tiling& tiling) {
    constexpr int64_t kTogether = 8;
    const int64_t in_matrix = block % (tiling.rows * tiling.columns);
    const int64_t first = in_matrix / (kTogether * tiling.columns) * kTogether;
    const int64_t rows = tiling.rows - first < kTogether ? tiling.rows - first : kTogether;
    const int64_t in_group = in_matrix - first * tiling.columns;
    return {block / (tiling.rows * tiling.columns), first + in_group % rows, in_group / rows};
  }
};

/// x·y + sum, rounded once where that is an instruction.
template <class T>
__device__ T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) {
    return x * y + sum;
  } else {
    return std::fma(x, y, sum);
  }
}

/// Stores z[i, j], whose sum over k is given.
template <class S, class SZ>
__device__ void finish(SZ* z, const Product& p, int64_t i, int64_t j, Wide<S> sum) {
  using T = Wide<S>;
  if (p.bias != nullptr) sum += static_cast<T>(static_cast<const S*>(p.bias)[j]);
  if constexpr (!std::is_integral_v<T>)
    if (p.gelu) sum = formula::GeluTanh().value(sum);
  SZ& out = z[i * p.z.row + j * p.z.column];
  out = SZ(p.add ? static_cast<T>(out) + sum : sum);
}

}  // namespace vitrine::cuda
