// A learned hard mask: each head learns which distances its queries see.
#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// A key at distance x is visible if logit[x] > 0, and a query always sees its own position. The
/// step has no gradient, so that of the sigmoid takes its place: the straight-through estimator of
/// Bengio, Léonard, Courville 2013. Distances from the context on share the last logit. The logits
/// start at 1, so that at first every key is visible.
class LearnedMask : public AttentionPart {
 public:
  explicit LearnedMask(const AttentionSizes& sizes) : logits(constant({sizes.heads, sizes.context}, 1)) {}
  Traits traits() const override { return {.distances = true, .estimated = true}; }
  Tensor weight_factors(const Tensor& weights) const override {
    const Tensor soft = sigmoid(cast(logits, weights.dtype()));
    const Tensor hard = cast(greater(logits, zeros_like(logits.value())), soft.dtype());
    // hard in the forward pass, and exactly so: soft + (hard − soft) is not rounded
    const Tensor seen = soft + detach(hard - soft);
    const Tensor distance =
        position_distances(weights.size(-2), weights.size(-1), DType::int64, weights.device());
    const auto last = static_cast<double>(logits.shape()[1] - 1);
    return where(not_equal(distance, zeros_like(distance)), index_select(seen, 1, minimum(distance, last)),
                 1.0);
  }
  void fields(Fields& f) override { f("logits", logits); }

  Parameter logits;  // [H, context]
};

}  // namespace

AttentionPartRow learned_mask() {
  return {.name = "learned_mask",
          .stage = Stage::reweight,
          .help = "each head learns which distances its queries see, by a straight-through gradient",
          .formula = "w_ij ← w_ij·[l_h(|i − j|) > 0] / Σ, and d[l > 0]/dl is that of σ(l)",
          .source = "Bengio et al. 2013",
          .make = [](const AttentionSizes& sizes, const PartValues&) {
            return std::make_unique<LearnedMask>(sizes);
          }};
}

}  // namespace vitrine::nn::parts
