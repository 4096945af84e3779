#include "nn/attention/weighting.h"

#include <cmath>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

double smallest_total(DType dtype) { return dtype == DType::float64 ? 0x1p-900 : 0x1p-100; }

Tensor share_of(const Tensor& x, const Tensor& total, double smallest) {
  const Tensor small = less_equal(total, full({}, smallest, total.dtype(), total.device()));
  return x / where(logical_not(small), total, 1.0);  // NaN stays
}

namespace {

/// The largest number of each row that is not −∞; 0 for a row that has no other.
Tensor top_of(const Tensor& scores, const Tensor& others) {
  const auto highest = [](const Tensor& x) { return max(detach(x), {-1}, KeepAxes::yes); };
  const Tensor least = full({}, -INFINITY, scores.dtype(), scores.device());
  const Tensor top = highest(scores), either = where(equal(top, least), highest(others), top);
  return where(not_equal(either, least), either, 0.0);
}

}  // namespace

Weighting reweighted(const Weighting& w, const Tensor& factors) {
  Weighting result = w;
  if (w.weights.numel() == 0) return result;
  if (!w.scores.defined()) {
    const Tensor scaled = w.weights * factors;
    result.weights = share_of(scaled, sum(scaled, {-1}, KeepAxes::yes), smallest_total(scaled.dtype()));
    return result;
  }
  constexpr double kHighest = 40;
  // NaN counts, so that it is seen in the weights
  const Tensor counts = logical_not(less_equal(factors, zeros({}, factors.dtype(), factors.device())));
  result.scores = where(counts, w.scores + log(where(counts, factors, 1.0)), -INFINITY);
  const Tensor top = top_of(result.scores, w.scores);
  const Tensor scaled =
      where(counts, exp(result.scores - top), exp(minimum(w.scores - top, kHighest)) * factors);
  result.weights = share_of(scaled, sum(scaled, {-1}, KeepAxes::yes));
  return result;
}

Tensor seen_values(const Weighting& weighting) {
  if (!weighting.visible.defined()) return {};
  return unsqueeze(any(expand(weighting.visible, weighting.weights.shape()), {-2}), -1);
}

}  // namespace vitrine::nn
