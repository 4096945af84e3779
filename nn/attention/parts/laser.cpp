// LASER's read: the log of a softmax-weighted sum of e^v (Duvvuri and Dhillon 2024).
#include "nn/attention/parts/laser.h"

#include <cmath>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "nn/attention/parts/rows.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// LSE_j(s_ij + v_jd) − LSE_j(s_ij), exact for all values; it needs a tensor [B, H, Tq, Tk, D].
Tensor exact_read(const Tensor& scores, const Tensor& v) {
  const Tensor together = unsqueeze(scores, -1) + unsqueeze(v, -3);
  return log_sum_exp(together, {-2}) - log_sum_exp(scores, {-1}, KeepAxes::yes);
}

/// Scores whose softmax is `weights`. A weight of 0 gives −∞ without a gradient.
Tensor log_of(const Tensor& weights) {
  const Tensor seen = not_equal(weights, zeros({}, weights.dtype(), weights.device()));
  return where(seen, log(where(seen, weights, 1.0)), -INFINITY);
}

class Laser : public AttentionPart {
 public:
  Traits traits() const override { return {.needs_distribution = true}; }
  bool fold(AttentionOptions& options, Device) const override {
    options.read = AttentionRead::laser;
    return true;
  }
  Tensor read(const Weighting& w, const Tensor& v) const override {
    const Tensor y = laser_read(w.weights, w.scores, v, w.visible);
    if (!w.empty_rows) return y;
    // A row without visible keys has weights 0, whose logarithm would be −∞.
    const Tensor total = sum(detach(w.weights), {-1}, KeepAxes::yes);
    const Tensor dead = less(total, full({}, 0.5, total.dtype(), total.device()));
    return where(logical_not(dead), y, 0.0);  // NaN stays
  }
};

}  // namespace

/// With an anchor c per channel, o = c + log(Σ a·e^{v − c}) = c + log1p(Σ a·expm1(v − c)). If the
/// values of a channel differ by at most 2, c is the middle of their range; if by at most 60, c is
/// their minimum. Small values then lose no digits by cancellation, and large values do not
/// overflow. The result does not depend on the anchor, so the anchor needs no gradient. Channels
/// with a wider range, in which a hidden value could dominate the visible ones, are computed by
/// exact_read.
Tensor laser_read(const Tensor& weights, const Tensor& scores, const Tensor& v, const Tensor& visible) {
  check(v.dtype() == accumulation_dtype(v.dtype()), "laser_read: v is {}, wanted float32 or float64",
        name(v.dtype()));
  if (weights.numel() == 0 || v.numel() == 0) return matmul(weights, v);  // zeros
  const Tensor values = detach(v);
  Tensor seen;  // [.., Tk, 1]: whether any query sees the key
  if (visible.defined()) seen = unsqueeze(any(expand(visible, weights.shape()), {-2}), -1);
  const auto over_keys = [&](Tensor (*extreme)(const Tensor&, const Axes&, KeepAxes), double neutral) {
    return extreme(seen.defined() ? where(seen, values, neutral) : values, {-2}, KeepAxes::yes);
  };
  if (!v.device().is_cpu())
    vitrine::detail::refuse_in_capture("laser_read, which looks how far the values lie apart");
  const Tensor low = over_keys(min, INFINITY), high = over_keys(max, -INFINITY), range = high - low;
  if (!(max(range).item() <= kLaserFar)) return exact_read(scores.defined() ? scores : log_of(weights), v);
  const Tensor near = less_equal(range, full({}, kLaserNear, v.dtype(), v.device()));
  const Tensor anchor =
      where(is_finite(low), where(near, (low + high) * 0.5, low), 0.0);  // 0 if no key is seen
  // A hidden value must not overflow
  const Tensor shown = seen.defined() ? where(seen, v, anchor) : v;
  return anchor + log1p(matmul(weights, expm1(shown - anchor)));
}

AttentionPartRow parts::laser() {
  return {.name = "laser",
          .stage = Stage::read,
          .help = "the output is the log of a weighted mean of e^v",
          .source = "Duvvuri and Dhillon 2024",
          .make = [](const AttentionSizes&, const PartValues&) { return std::make_unique<Laser>(); }};
}

}  // namespace vitrine::nn
