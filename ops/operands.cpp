#include "ops/operands.h"

#include "ops/view.h"

namespace vitrine {

bool has_matrix_rows(const Tensor& x, int row_axis, int column_axis) {
  const int row = x.rank() + row_axis, column = x.rank() + column_axis;
  const int64_t n = x.shape()[column];
  if (x.numel() == 0) return true;
  return (n == 1 || x.strides()[column] == 1) && (x.shape()[row] == 1 || x.strides()[row] >= n);
}

std::optional<int64_t> row_distance(const Tensor& x) {
  const int last = x.rank() - 1;
  const int64_t n = x.shape()[last];
  int64_t rows = 1, apart = n;
  bool even = n == 1 || x.strides()[last] == 1;
  for (int axis = last - 1; axis >= 0; --axis) {
    if (x.shape()[axis] == 1) continue;
    if (rows == 1) apart = x.strides()[axis];
    even = even && x.strides()[axis] == apart * rows;
    rows *= x.shape()[axis];
  }
  return even && apart >= n ? std::optional(apart) : std::nullopt;
}

Tensor in_rows(const Tensor& x) {
  const int64_t n = x.size(-1);
  int64_t rows = 1;
  for (int axis = 0; axis < x.rank() - 1; ++axis) rows *= x.shape()[axis];
  const auto apart = row_distance(x);
  return apart ? x.alias({rows, n}, {*apart, 1}) : packed(x).alias({rows, n}, {n, 1});
}

Tensor empty_rows(const char* op, const Shape& shape, DType dtype, Device device) {
  constexpr int64_t kLong = 1024, kTogether = 8;  // elements; shorter rows are not worth it
  Shape whole = shape;
  if (!device.is_cpu() && is_low_precision(dtype) && shape.back() >= kLong)
    whole.back() = (shape.back() + kTogether - 1) / kTogether * kTogether;
  const Tensor x = empty(whole, dtype, device, op);
  return whole == shape ? x : x.alias(shape, x.strides());
}

Tensor move_axis(const Tensor& x, int64_t from, int64_t to) {
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  const int moved = check_axis("move_axis", x.shape(), from);
  order.erase(order.begin() + moved);
  order.insert(order.begin() + check_axis("move_axis", x.shape(), to), moved);
  return permute(x, order);
}

void check_floating(std::string_view op, std::string_view argument, const Tensor& x) {
  check(is_floating(x.dtype()), "{}: {} is {}, wanted a floating dtype (cast it first)", op, argument,
        describe(x));
}

}  // namespace vitrine
