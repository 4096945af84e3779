#pragma once

#include "optim/adam.h"
#include "optim/fused.h"

namespace vitrine::optim {

struct AdamaxOptions {
  double lr = 2e-3;         ///< ≥ 0
  double beta1 = 0.9;       ///< of m, [0, 1)
  double beta2 = 0.999;     ///< of u, [0, 1)
  double eps = 1e-8;        ///< ≥ 0; 0 in the paper. Raised to at least the smallest normal number
  double weight_decay = 0;  ///< ≥ 0
  Decay decay = Decay::coupled;
};

/// Adam with the infinity norm of past gradients instead of their root mean square: m ← β₁m + (1 −
/// β₁)g, u ← max(β₂u, |g|), x −= lr/(1 − β₁ᵗ)·m/(u + eps). Nothing is squared, so gradients of any
/// magnitude give normal steps. Kingma and Ba 2015, section 7.1. State: moment1 (m) and
/// infinity_norm (u).
class Adamax : public FusedOptimizer {
 public:
  explicit Adamax(std::vector<Parameter> parameters, AdamaxOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  AdamaxOptions options_;
};

}  // namespace vitrine::optim
