#include "nn/attention/parts/adaptive_span.h"

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

AdaptiveSpan::AdaptiveSpan(const AttentionSizes& sizes, double ramp)
    : share(constant({sizes.heads}, 0.5)), ramp_(ramp), context_(static_cast<double>(sizes.context)) {}

Tensor AdaptiveSpan::span() const { return cast(share, accumulation_dtype(share.dtype())) * context_; }

Tensor AdaptiveSpan::weight_factors(const Tensor& weights) const {
  const int64_t queries = weights.size(-2), keys = weights.size(-1);
  const Tensor distance = position_distances(queries, keys, weights.dtype(), weights.device());
  const Tensor z = reshape(cast(span(), weights.dtype()), {-1, 1, 1});
  const Tensor factors = minimum(maximum((ramp_ + z - distance) / ramp_, 0), 1);
  return where(not_equal(distance, zeros_like(distance)), factors, 1.0);
}

Tensor span_penalty(Module& module) {
  Tensor total;
  module.apply([&](const std::string&, Module& m) {
    const auto* const part = dynamic_cast<const AdaptiveSpan*>(&m);
    if (part == nullptr) return;
    const Tensor own = mean(maximum(part->span(), 0));
    total = total.defined() ? total + own : own;
  });
  check(total.defined(), "span_penalty: no attention of the module has the part adaptive_span");
  return total;
}

AttentionPartRow parts::adaptive_span() {
  return {.name = "adaptive_span",
          .stage = Stage::reweight,
          .help = "each head learns how far back its queries look",
          .formula = "w_ij ← w_ij·m(|i − j|) / Σ, m(x) = clamp((ramp + z_h − x)/ramp, 0, 1)",
          .source = "Sukhbaatar et al. 2019",
          .options = {{.name = "ramp", .help = "the length over which a weight falls to 0", .initial = "32"}},
          .make = [](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<AdaptiveSpan>(sizes, values.number("ramp"));
          }};
}

}  // namespace vitrine::nn
