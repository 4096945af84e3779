// Turns reductions over any axes into passes over [outer, n, inner], and implements the loops of a
// pass.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "core/convert.h"
#include "core/parallel.h"
#include "ops/operands.h"
#include "ops/reduce.h"

namespace vitrine {

/// The shape with the reduced axes removed, or kept with size 1.
Shape reduced_shape(const Shape& shape, std::span<const int> axes, KeepAxes keep);

/// The number of elements reduced to one result. It must be at least 1; otherwise an error names
/// the op.
int64_t reduced_count(std::string_view op, const Shape& shape, std::span<const int> axes);

/// Reduces x over `axes` (sorted). Adjacent axes are reduced in one pass, starting with the last
/// ones, so that x is read once. `run(y, x)` reduces a contiguous x [outer, n, inner] to y [outer,
/// inner]. Results between passes have the dtype `partial`, and the last one has `dtype`. The axes
/// are kept with size 1.
template <class Run>
Tensor reduce_axes(const Tensor& x, std::span<const int> axes, DType partial, DType dtype, Run run) {
  Tensor y = packed(x);
  Shape shape = x.shape();
  int last = static_cast<int>(axes.size()) - 1;
  do {
    int first = last;
    while (first > 0 && axes[first - 1] == axes[first] - 1) --first;
    int64_t outer = 1, n = 1, inner = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (last < 0 || axis < axes[first]) {  // a scalar has no axes: reduced with n = 1
        outer *= shape[axis];
      } else if (axis <= axes[last]) {
        n *= std::exchange(shape[axis], 1);
      } else {
        inner *= shape[axis];
      }
    }
    const Tensor from = y.alias({outer, n, inner}, contiguous_strides({outer, n, inner}));
    y = empty({outer, inner}, first > 0 ? partial : dtype, x.device());
    run(y, from);
    last = first - 1;
  } while (last >= 0);
  return y.alias(shape, contiguous_strides(shape));
}

namespace cpu {

/// y[o, p, i] = Fold of x[o, p·height + (0 … height − 1), i], in parallel. A Fold has
///   Total<S>                            the type of results between pieces
///   row(x, n) -> Total<S>               the fold of a row (of nothing too, where the op allows it)
///   rows(totals, x, stride, rows, n)    totals[c] = the fold of column c of some rows, for c < n
template <class Fold, class S, class D>
void reduce_pieces(D* y, const S* x, int64_t outer, int64_t n, int64_t inner, int64_t height) {
  using Total = typename Fold::template Total<S>;
  constexpr int64_t kColumns = 1024;
  const int64_t pieces = std::max<int64_t>(1, (n + height - 1) / height);
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t cost = std::min(n, height) * std::min(inner, kColumns);
  parallel_for(0, outer * pieces * blocks, grain_for(cost), [&](int64_t b, int64_t e) {
    std::array<Total, kColumns> totals;
    for (int64_t i = b; i < e; ++i) {
      const int64_t piece = i / blocks, column = i % blocks * kColumns;
      const int64_t row = piece / pieces * n + piece % pieces * height;
      const int64_t rows = std::min(height, n - piece % pieces * height);
      const int64_t columns = std::min(kColumns, inner - column);
      if (inner == 1) {
        totals[0] = Fold::row(x + row, rows);
      } else {
        Fold::rows(totals.data(), x + row * inner + column, inner, rows, columns);
      }
      std::transform(totals.begin(), totals.begin() + columns, y + piece * inner + column,
                     [](const Total& total) { return convert<D>(total); });
    }
  });
}

/// A pass: y[o, i] = Fold of x[o, :, i]. A tree over pieces whose sizes are fixed: parallel,
/// accurate for sums, and with a result that does not depend on the number of threads.
template <class Fold, class S, class D>
void reduce(D* y, const S* x, int64_t outer, int64_t n, int64_t inner) {
  using Total = typename Fold::template Total<S>;
  const int64_t height = inner == 1 ? 1 << 14 : 128;
  if (n <= height) return reduce_pieces<Fold>(y, x, outer, n, inner, height);
  const int64_t pieces = (n + height - 1) / height;
  const Tensor partial = empty({outer, pieces, inner}, dtype_v<Total>);
  reduce_pieces<Fold>(partial.data<Total>(), x, outer, n, inner, height);
  reduce<Fold>(y, static_cast<const Total*>(partial.data<Total>()), outer, pieces, inner);
}

}  // namespace cpu
}  // namespace vitrine
