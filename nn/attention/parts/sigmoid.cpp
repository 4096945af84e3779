// Sigmoid attention: each weight is computed independently; there is no softmax.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace vitrine::nn::parts {
namespace {

/// p = σ(s − log n), where n is the number of keys that the query sees. If all scores are 0, the
/// weights sum to about 1. Ramapuram et al. 2024.
class Sigmoid : public AttentionPart {
 public:
  Traits traits() const override { return {.distribution = false}; }
  Tensor normalize(const Tensor& scores) const override {
    const Tensor visible = not_equal(scores, full_like(scores, -INFINITY));  // true for NaN
    const Tensor n = cast(sum(visible, {-1}, KeepAxes::yes), scores.dtype());
    return where(visible, vitrine::sigmoid(where(visible, scores, 0.0) - log(maximum(n, 1))), 0.0);
  }
};

}  // namespace

AttentionPartRow sigmoid() {
  return {.name = "sigmoid",
          .stage = Stage::normalize,
          .help = "σ(s − log n) in place of softmax: the weights of a query need not sum to 1",
          .formula = "w_j = σ(s_j − log n)",
          .source = "Ramapuram et al. 2024",
          .make = [](const AttentionSizes&, const PartValues&) { return std::make_unique<Sigmoid>(); }};
}

}  // namespace vitrine::nn::parts
