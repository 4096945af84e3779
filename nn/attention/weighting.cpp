#include "nn/attention/weighting.h"

#include <cmath>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

double smallest_total(DType dtype) { return dtype == DType::float64 ? 0x1p-900 : 0x1p-100; }

Tensor is_weight(const Tensor& totals) {
  return logical_not(less(totals, full({}, smallest_total(totals.dtype()), totals.dtype(), totals.device())));
}

Tensor share_of(const Tensor& x, const Tensor& total) {
  const Tensor counts = is_weight(total);
  return where(counts, x, 0.0) / where(counts, total, 1.0);
}

Weighting reweighted(const Weighting& w, const Tensor& factors) {
  Weighting result = w;
  if (!w.scores.defined()) {
    const Tensor scaled = w.weights * factors;
    result.weights = share_of(scaled, sum(scaled, {-1}, KeepAxes::yes));
    return result;
  }
  constexpr double kHighest = 60;
  const Tensor counts = greater(detach(factors), zeros({}, factors.dtype(), factors.device()));
  const Tensor top = max(where(counts, detach(w.scores), -INFINITY), {-1}, KeepAxes::yes);
  const Tensor above = w.scores - where(is_finite(top), top, 0.0);
  const Tensor scaled = exp(minimum(above, kHighest)) * factors;
  result.weights = share_of(scaled, sum(scaled, {-1}, KeepAxes::yes));
  result.scores = where(counts, w.scores + log(where(counts, factors, 1.0)), -INFINITY);
  return result;
}

Tensor seen_values(const Weighting& weighting) {
  if (!weighting.visible.defined()) return {};
  return unsqueeze(any(expand(weighting.visible, weighting.weights.shape()), {-2}), -1);
}

}  // namespace vitrine::nn
