// Sparsemax, which replaces softmax: the scores are projected onto the distributions.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// p_i = [s_i − τ]₊, where τ makes the sum 1: the distribution with the smallest distance |p − s|.
/// Let m be the mean of the k largest scores. Then τ_k = m − 1/k, and τ = τ_k for the largest k for
/// which the k-th largest score is above τ_k. Inside the support of size k, ∂p_i/∂s_j = [i = j] −
/// 1/k; softmax has p_i·([i = j] − p_j). Martins and Astudillo 2016.
class Sparsemax : public AttentionPart {
 public:
  Tensor normalize(const Tensor& scores) const override {
    if (scores.numel() == 0) return scores;  // there are no keys
    const Tensor largest = max(detach(scores), {-1}, KeepAxes::yes);
    const Tensor top = where(is_finite(largest), largest, 0.0);
    // τ ≥ max − 1, so a score of 2 below the maximum already has no weight.
    const Tensor z = maximum(scores - top, -2);
    const Tensor inside = cast(less(threshold(detach(z)), z), z.dtype());
    // The same τ as a function of the scores in the support alone. Equal scores outside of it, such
    // as those of hidden keys, have no order, so a sort has no derivative there.
    const Tensor size = sum(inside, {-1}, KeepAxes::yes);
    const Tensor weights = relu(z - (sum(inside * z, {-1}, KeepAxes::yes) - 1) / size);
    return where(not_equal(scores, full_like(scores, -INFINITY)), weights, 0.0);  // NaN stays
  }
  /// 1 in the support, so that Σg = k.
  Tensor weight_slope(const Tensor& weights) const override {
    return cast(greater(weights, zeros_like(weights)), weights.dtype());
  }

 private:
  /// τ of each row.
  static Tensor threshold(const Tensor& z) {
    const Tensor sorted = sort(z, -1, true).values;
    const Tensor k = arange(1, static_cast<double>(z.size(-1)) + 1, 1, z.dtype(), z.device());
    const Tensor thresholds = (cumsum(sorted, -1) - 1) / k;
    const Tensor support = sum(cast(less(thresholds, sorted), DType::int64), {-1}, KeepAxes::yes);
    return gather(thresholds, -1, support - 1);
  }
};

}  // namespace

AttentionPartRow sparsemax() {
  return {.name = "sparsemax",
          .stage = Stage::normalize,
          .help = "the nearest distribution to the scores in place of softmax: most weights are exactly 0",
          .formula = "w_j = max(s_j − τ, 0), with τ so that Σ w = 1",
          .source = "Martins and Astudillo 2016",
          .make = [](const AttentionSizes&, const PartValues&) { return std::make_unique<Sparsemax>(); }};
}

}  // namespace vitrine::nn::parts
