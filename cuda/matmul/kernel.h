// Code that the kernels of all steps share: types, which tile of the result a block computes, and
// what is done with a sum before it is stored.
#pragma once

#include <cmath>
#include <type_traits>

#include "cuda/matmul/steps.h"
#include "cuda/strided.h"
#include "ops/formulas.h"

namespace vitrine::cuda {

/// Calls f(Type<S>{}, Type<SZ>{}), where S is the type of x and y, and SZ the type of z.
template <class F>
void visit_types(const Product& p, F&& f) {
  if (is_integer(p.dtype)) return visit_index(p.dtype, "matmul", [&](auto type) { f(type, type); });
  visit_device_floating(p.dtype, "matmul", [&](auto type) {
    using S = typename decltype(type)::type;
    if constexpr (!std::is_same_v<S, AccumulatorOf<S>>)
      if (p.out != p.dtype) return f(type, Type<AccumulatorOf<S>>{});
    f(type, type);
  });
}

/// For steps of 16-bit types: calls f(Type<S>{}, Type<SZ>{}, x, y), where x and y are constants
/// that say whether the lines of x and y run along k.
template <class F>
void visit_layouts(const Product& p, F&& f) {
  visit_types(p, [&](auto type, auto out) {
    using S = typename decltype(type)::type;
    if constexpr (sizeof(S) == 2) {
      const auto visit = [&](auto x_along_k) {
        p.y.by_rows() ? f(type, out, x_along_k, std::false_type())
                      : f(type, out, x_along_k, std::true_type());
      };
      p.x.by_rows() ? visit(std::true_type()) : visit(std::false_type());
    }
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

/// The division of the results of a batch into tiles, one per block.
struct Tiling {
  int64_t rows, columns;  // tiles of one matrix

  Tiling(const Product& p, int64_t tile_rows, int64_t tile_columns)
      : rows((p.M + tile_rows - 1) / tile_rows), columns((p.N + tile_columns - 1) / tile_columns) {}

  /// Blocks of a one-dimensional grid (only this axis of a grid can be long).
  unsigned blocks(const Product& p) const {
    const int64_t count = p.batch() * rows * columns;
    check(count <= INT32_MAX, "matmul: {} matrices of [{}, {}] are more than a grid of blocks holds",
          p.batch(), p.M, p.N);
    return static_cast<unsigned>(count);
  }
};

struct Tile {
  int64_t batch, row, column;

  /// Blocks that run at the same time have neighbouring tiles: `together` rows of tiles by some
  /// columns. These blocks read the same parts of x and y, and find them in the L2 cache.
  __device__ static Tile of(int64_t block, const Tiling& tiling, int64_t together = 8) {
    const int64_t in_matrix = block % (tiling.rows * tiling.columns);
    const int64_t first = in_matrix / (together * tiling.columns) * together;
    const int64_t rows = tiling.rows - first < together ? tiling.rows - first : together;
    const int64_t in_group = in_matrix - first * tiling.columns;
    return {block / (tiling.rows * tiling.columns), first + in_group % rows, in_group / rows};
  }
};

/// x·y + sum; for floating-point types with one rounding (fma).
template <class T>
__device__ T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) {
    return x * y + sum;
  } else {
    return std::fma(x, y, sum);
  }
}

/// The new value of an element of z in column j. `sum` is its sum over k, and `old` its present
/// value.
template <class S, class SZ>
__device__ AccumulatorOf<S> finished(const Product& p, int64_t j, AccumulatorOf<S> sum, const SZ& old) {
  using T = AccumulatorOf<S>;
  if (p.bias != nullptr) sum += static_cast<T>(static_cast<const S*>(p.bias)[j]);
  return p.add ? static_cast<T>(old) + sum : sum;
}

/// The address of gelu_tanh of an element of z.
template <class SZ>
__device__ SZ* activation_of(const Product& p, const SZ* z) {
  return static_cast<SZ*>(p.active) + (z - static_cast<const SZ*>(p.z_data));
}
/// gelu_tanh of a stored (rounded) element of z.
template <class SZ>
__device__ SZ activated(const SZ& z) {
  return SZ(formula::GeluTanh().value(static_cast<AccumulatorOf<SZ>>(z)));
}

/// Stores z[i, j], given its sum over k.
template <class S, class SZ>
__device__ void finish(SZ* z, const Product& p, int64_t i, int64_t j, AccumulatorOf<S> sum) {
  SZ& out = z[i * p.z.row + j * p.z.column];
  out = SZ(finished<S>(p, j, sum, out));
  if constexpr (!std::is_integral_v<SZ>)
    if (p.active != nullptr) *activation_of(p, &out) = activated(out);
}

}  // namespace vitrine::cuda
