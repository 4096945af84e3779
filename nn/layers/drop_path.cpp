#include "nn/layers/drop_path.h"

#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor drop_path(const Tensor& x, const Tensor& keep, double rate) {
  check(x.rank() >= 1 && keep.shape() == Shape{x.size(0)} && keep.dtype() == DType::boolean,
        "drop_path: keep is {}, wanted bool [{}], one per row of x {}", describe(keep),
        x.rank() ? x.size(0) : 1, x.shape());
  check(rate >= 0 && rate < 1, "drop_path: the rate is {}, wanted [0, 1)", rate);
  Shape rows = Shape::filled(x.rank(), 1);
  rows[0] = x.size(0);
  return x * reshape(cast(keep, x.dtype()) / (1 - rate), rows);
}

DropPath::DropPath(double rate) : rate_(rate) {
  check(rate >= 0 && rate < 1, "DropPath: the rate is {}, wanted [0, 1)", rate);
}

Tensor DropPath::forward(const Tensor& x) const {
  if (!training() || rate_ == 0) return x;
  const Tensor draws = rand({x.size(0)}, DType::float32, x.device());
  return drop_path(x, greater_equal(draws, full_like(draws, rate_)), rate_);
}

DropPath DropPath::clone() {
  return clone_into([this] { return DropPath(rate_); });
}

}  // namespace vitrine::nn
