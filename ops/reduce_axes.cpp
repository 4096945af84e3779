#include "ops/reduce_axes.h"

namespace vitrine {

Shape reduced_shape(const Shape& shape, std::span<const int> axes, KeepAxes keep) {
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
    if (!reduced) result.push_back(shape[axis]);
    if (reduced && keep == KeepAxes::yes) result.push_back(1);
  }
  return result;
}

int64_t reduced_count(std::string_view op, const Shape& shape, std::span<const int> axes) {
  int64_t count = 1;
  for (int axis : axes) count *= shape[axis];
  check(count > 0, "{}: x has the shape {}: there are no elements along the axes [{}] to reduce", op, shape,
        fmt::join(axes, ", "));
  return count;
}

}  // namespace vitrine
