#include "nn/layers/over_time.h"

#include <cmath>

#include "nn/layers/zero_padding.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor mean_over_time(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return mean(x, {1});
  const Tensor count = unsqueeze(maximum(minimum(lengths, static_cast<double>(x.size(1))), 1), -1);
  return sum(zero_padding(x, lengths), {1}) / cast(count, x.dtype());
}

Tensor mean_of_real(const Tensor& x, const Tensor& real) {
  if (!real.defined()) return mean(x, {0});
  const Tensor count = maximum(sum(cast(real, DType::int64)), 1);
  const DType wide = accumulation_dtype(x.dtype());
  return cast(sum(where(unsqueeze(real, 1), cast(x, wide), 0.0), {0}) / cast(count, wide), x.dtype());
}

Tensor max_over_time(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return max(x, {1});
  const Tensor visible = unsqueeze(visible_positions(lengths, x.size(1)), -1);
  const Tensor has_any = visible_positions(lengths, 1);
  return where(has_any, max(where(visible, x, -INFINITY), {1}), 0.0);
}

}  // namespace vitrine::nn
