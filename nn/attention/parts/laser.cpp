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

/// LSE_j(s_ij + v_jd) − LSE_j(s_ij), exact for all values; it needs a tensor [B, H, Tq, Tk, D]. The
/// largest score of a row is subtracted first: v would lose digits next to large scores.
Tensor exact_read(const Tensor& scores, const Tensor& v) {
  const Tensor top = max(detach(scores), {-1}, KeepAxes::yes);
  const Tensor s = scores - where(is_finite(top), top, 0.0);
  const Tensor together = unsqueeze(s, -1) + unsqueeze(v, -3);
  return log_sum_exp(together, {-2}) - log_sum_exp(s, {-1}, KeepAxes::yes);
}

/// Scores whose softmax is `weights`. A weight of 0 gives −∞ without a gradient.
Tensor log_of(const Tensor& weights) {
  const Tensor seen = not_equal(weights, zeros({}, weights.dtype(), weights.device()));
  return where(seen, log(where(seen, weights, 1.0)), -INFINITY);
}

/// The smallest and the largest seen value of each channel, [.., 1, D].
struct Extremes {
  Tensor low, high;
};

Extremes extremes(const Tensor& v, const Tensor& seen) {
  const Tensor values = detach(v);
  const auto shown = [&](double neutral) { return seen.defined() ? where(seen, values, neutral) : values; };
  return {min(shown(INFINITY), {-2}, KeepAxes::yes), max(shown(-INFINITY), {-2}, KeepAxes::yes)};
}

/// The middle of a narrow range, the minimum of a wider one, and 0 where no key is seen.
Tensor anchor_of(const Extremes& e) {
  const Tensor near = less_equal(e.high - e.low, full({}, kLaserNear, e.low.dtype(), e.low.device()));
  return where(is_finite(e.low), where(near, (e.low + e.high) * 0.5, e.low), 0.0);
}

class Laser : public AttentionPart {
 public:
  Traits traits() const override { return {.needs_distribution = true}; }
  bool fold(AttentionOptions& options, const FoldCall&) const override {
    options.read = AttentionRead::laser;
    return true;
  }
  const ReadOut* read_out() const override { return &read_out_; }

 private:
  LaserReadOut read_out_;
};

}  // namespace

Tensor LaserReadOut::anchor(const Tensor& v, const Tensor& seen) const {
  return anchor_of(extremes(v, seen));
}
Tensor LaserReadOut::encode(const Tensor& v, const Tensor& anchor) const { return expm1(v - anchor); }
Tensor LaserReadOut::decode(const Tensor& average, const Tensor& anchor) const {
  return anchor + log1p(average);
}

/// With d = from − to: e^{v − to} − 1 = e^d·(e^{v − from} − 1) + e^d − 1, and the weights sum to 1.
Tensor LaserReadOut::rescale(const Tensor& average, const Tensor& from, const Tensor& to) const {
  const Tensor d = from - to;
  return exp(d) * average + expm1(d);
}

Tensor LaserReadOut::read(const Weighting& w, const Tensor& v) const {
  check(v.dtype() == accumulation_dtype(v.dtype()), "laser: v is {}, wanted float32 or float64",
        name(v.dtype()));
  if (w.weights.numel() == 0 || v.numel() == 0) return matmul(w.weights, v);  // zeros
  if (!v.device().is_cpu())
    vitrine::detail::refuse_in_capture(
        "laser's read of kept weights, which measures how far the values are apart");
  const Tensor seen = seen_values(w);
  const Extremes e = extremes(v, seen);
  const bool near = max(e.high - e.low).item() <= kLaserFar;  // false for NaN
  const Tensor y = near ? read_near(w.weights, v, anchor_of(e), seen)
                        : exact_read(w.scores.defined() ? w.scores : log_of(w.weights), v);
  if (!w.empty_rows) return y;
  // A row without visible keys has weights 0, whose logarithm would be −∞.
  const Tensor total = sum(detach(w.weights), {-1}, KeepAxes::yes);
  const Tensor dead = less(total, full({}, 0.5, total.dtype(), total.device()));
  return where(logical_not(dead), y, 0.0);  // NaN stays
}

AttentionPartRow parts::laser() {
  return {.name = "laser",
          .stage = Stage::read,
          .help = "the output is the log of a weighted mean of e^v",
          .formula = "y = log Σ_j w_j·e^(v_j)",
          .source = "Duvvuri and Dhillon 2024",
          .make = [](const AttentionSizes&, const PartValues&) { return std::make_unique<Laser>(); }};
}

}  // namespace vitrine::nn
