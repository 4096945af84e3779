#include "ops/toeplitz.h"

#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

void check_matrix(const Tensor& x) {
  check_floating("sum_diagonals", "x", x);
  check(x.rank() >= 2 && x.size(-2) >= 1 && x.size(-1) >= 1,
        "sum_diagonals: x is {}, wanted [.., rows, columns] with at least one of each", x.shape());
}

}  // namespace

Tensor toeplitz(const Tensor& x, int64_t rows) {
  check_floating("toeplitz", "x", x);
  check(x.rank() >= 1 && rows >= 1 && rows <= x.size(-1),
        "toeplitz: {} rows of x {}, wanted from 1 row to as many as its last axis has elements", rows,
        x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t step = strides.back();
  shape.back() = rows, strides.back() = -step;
  shape.push_back(x.size(-1) - rows + 1), strides.push_back(step);
  return record("toeplitz", {x}, x.alias(shape, strides, (rows - 1) * step),
                [](const Tensor& dy) -> Grads { return {sum_diagonals(dy)}; });
}

/// With the rows in reverse order, diagonals go down to the left. Zeros make each row one element
/// longer than the rows of the last reshape, which so moves each row one place further to the
/// right. Then a diagonal is a column.
Tensor define::sum_diagonals(const Tensor& x) {
  check_matrix(x);
  const int64_t rows = x.size(-2), columns = x.size(-1), count = rows + columns - 1;
  Shape zeros_shape = x.shape(), flat = x.shape(), skewed = x.shape();
  zeros_shape.back() = rows;
  flat.erase(x.rank() - 1);
  flat.back() = rows * (columns + rows);
  skewed.back() = count;
  const Tensor longer = concat({flip(x, {-2}), zeros(zeros_shape, x.dtype(), x.device())}, -1);
  return sum(reshape(slice(reshape(longer, flat), -1, 0, rows * count), skewed), {-2});
}

Tensor sum_diagonals(const Tensor& x) {
  check_matrix(x);
  if (const auto y = through_definition({x}, [&] { return define::sum_diagonals(x); })) return *y;
  const DType wide = accumulation_dtype(x.dtype());
  const int64_t rows = x.size(-2);
  Shape shape = x.shape();
  shape.erase(x.rank() - 1);
  shape.back() = rows + x.size(-1) - 1;
  Tensor y = empty(shape, wide, x.device());
  VITRINE_RUN(sum_diagonals, y, x.dtype() == wide ? packed(x) : copy_as(x, wide));
  return record("sum_diagonals", {x}, y.dtype() == x.dtype() ? y : copy_as(y, x.dtype()),
                [rows](const Tensor& dy) -> Grads { return {contiguous(toeplitz(dy, rows))}; });
}

}  // namespace vitrine
