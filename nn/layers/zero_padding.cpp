#include "nn/layers/zero_padding.h"

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor visible_positions(const Tensor& lengths, int64_t time) {
  if (!lengths.defined()) return {};
  check(lengths.rank() == 1 && lengths.dtype() == DType::int64,
        "visible_positions: the lengths are {}, wanted int64 [B]", describe(lengths));
  const Tensor places = arange(0, static_cast<double>(time), 1, DType::int64, lengths.device());
  return less(places, unsqueeze(lengths, -1));
}

Tensor zero_padding(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x;
  check(x.rank() >= 2 && lengths.dtype() == DType::int64 && lengths.shape() == Shape{x.size(0)},
        "zero_padding: x is {} and the lengths are {}, wanted [B, T, ...] and int64 [B]", x.shape(),
        describe(lengths));
  Shape shape = {x.size(0), x.size(1)};
  while (shape.rank() < x.rank()) shape.insert(shape.rank(), 1);
  return where(reshape(visible_positions(lengths, x.size(1)), shape), x, 0.0);
}

}  // namespace vitrine::nn
