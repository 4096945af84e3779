// Entmax 1.5, which replaces softmax: near the largest score the weights resemble those of softmax,
// and far below it they are exactly 0.
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

/// p_i = [s_i/2 − τ]₊², where τ makes the sum 1. Let m and q be the mean and the mean square of the
/// k largest s/2. Then
///   τ_k = m − √((1 − k(q − m²))/k),
/// and τ = τ_k for the largest k for which τ_k is at most the k-th largest s/2. Peters, Niculae,
/// Martins 2019, algorithm 2.
class Entmax : public AttentionPart {
 public:
  Tensor normalize(const Tensor& scores) const override {
    if (scores.numel() == 0) return scores;  // there are no keys
    const Tensor largest = max(detach(scores), {-1}, KeepAxes::yes);
    const Tensor top = where(is_finite(largest), largest, 0.0);
    // τ ≥ max − 1, so a value of 2 below the maximum already has no weight.
    const Tensor z = maximum((scores - top) / 2.0, -2);
    const Tensor inside = cast(less(threshold(detach(z)), z), z.dtype());
    // The same τ as a function of the scores in the support alone. Equal scores outside of it, such
    // as those of hidden keys, have no order, so a sort has no derivative there.
    const Tensor size = sum(inside, {-1}, KeepAxes::yes), m = sum(inside * z, {-1}, KeepAxes::yes) / size,
                 q = sum(inside * square(z), {-1}, KeepAxes::yes) / size;
    const Tensor weights = square(relu(z - threshold(size, m, q)));
    return where(not_equal(scores, full_like(scores, -INFINITY)), weights, 0.0);  // NaN stays
  }

  /// ∂p_i/∂s_j = [i = j]·√p_i − √p_i·√p_j/Σ√p.
  Tensor weight_slope(const Tensor& weights) const override { return sqrt(weights); }

 private:
  /// τ_k.
  static Tensor threshold(const Tensor& k, const Tensor& m, const Tensor& q) {
    const Tensor left = 1 / k - (q - square(m));  // the radicand; negative after the support
    const Tensor positive = greater(left, zeros_like(left));
    return m - where(positive, sqrt(where(positive, left, 1.0)), 0.0);
  }
  /// τ of each row.
  static Tensor threshold(const Tensor& z) {
    const Tensor sorted = sort(z, -1, true).values;
    const Tensor k = arange(1, static_cast<double>(z.size(-1)) + 1, 1, z.dtype(), z.device());
    const Tensor thresholds = threshold(k, cumsum(sorted, -1) / k, cumsum(square(sorted), -1) / k);
    const Tensor support = sum(cast(less_equal(thresholds, sorted), DType::int64), {-1}, KeepAxes::yes);
    return gather(thresholds, -1, support - 1);
  }
};

}  // namespace

AttentionPartRow entmax() {
  return {.name = "entmax",
          .stage = Stage::normalize,
          .help = "entmax 1.5 in place of softmax: many weights are exactly 0",
          .formula = "w_j = max(s_j/2 − τ, 0)², with τ so that Σ w = 1",
          .source = "Peters, Niculae, Martins 2019",
          .make = [](const AttentionSizes&, const PartValues&) { return std::make_unique<Entmax>(); }};
}

}  // namespace vitrine::nn::parts
