// LASER's read: the log of a softmax-weighted sum of e^v (Duvvuri and Dhillon 2024).
#include "nn/attention/parts/laser.h"

#include <cmath>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "nn/attention/parts/rows.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
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

/// The channels whose values one anchor serves, and the others.
struct Channels {
  std::vector<int64_t> near, far;

  explicit Channels(const Extremes& e) {
    const Tensor range = to(flatten(e.high - e.low, 0, -2), Device::cpu), widest = max(range, {0});
    for (int64_t d = 0; d < widest.numel(); ++d)
      (select(widest, 0, d).item() <= kLaserFar ? near : far).push_back(d);  // NaN is far
  }
  static Tensor of(const Tensor& v, const std::vector<int64_t>& some) {
    return index_select(v, -1, index_tensor(some, {std::ssize(some)}, v.device()));
  }
  /// The results of both kinds, in the order of the channels.
  Tensor joined(const Tensor& of_near, const Tensor& of_far) const {
    std::vector<int64_t> place(near.size() + far.size());
    for (size_t i = 0; i < near.size(); ++i) place[near[i]] = static_cast<int64_t>(i);
    for (size_t i = 0; i < far.size(); ++i) place[far[i]] = static_cast<int64_t>(near.size() + i);
    return of(concat({of_near, of_far}, -1), place);
  }
};

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
  const auto near_read = [&](const Tensor& some) {
    return read_near(w.weights, some, anchor_of(extremes(some, seen)), seen);
  };
  const auto far_read = [&](const Tensor& some) {
    return exact_read(w.scores.defined() ? w.scores : log_of(w.weights), some);
  };
  const Channels channels(extremes(v, seen));
  const Tensor y = channels.far.empty()    ? near_read(v)
                   : channels.near.empty() ? far_read(v)
                                           : channels.joined(near_read(channels.of(v, channels.near)),
                                                             far_read(channels.of(v, channels.far)));
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
