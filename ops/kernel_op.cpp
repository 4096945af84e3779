#include "ops/kernel_op.h"

#include <algorithm>

#include "ops/view.h"

namespace vitrine {

bool through_definition(std::initializer_list<Tensor> inputs) {
  const auto is_dual = [](const Tensor& x) { return x.defined() && x.dtype() == DType::dual64; };
  return std::any_of(inputs.begin(), inputs.end(), is_dual) || records_definitions(inputs);
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
