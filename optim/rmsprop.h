#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct RmspropOptions {
  double lr = 1e-2;         ///< ≥ 0
  double beta2 = 0.99;      ///< of v, [0, 1)
  double eps = 1e-8;        ///< ≥ 0
  double weight_decay = 0;  ///< ≥ 0, coupled
  double momentum = 0;      ///< μ ≥ 0; 0: no buffer
  bool centered = false;    ///< the variance of g instead of its mean square
};

/// g += decay·x; v ← β₂v + (1 − β₂)g²; u = g/(√v + eps); buffer ← μ·buffer + u; x −= lr·buffer.
/// Centered: √(v − m²) instead of √v, with m ← β₂m + (1 − β₂)g. Tieleman and Hinton 2012; β₂ is
/// also called α or ρ. State: moment2 (v), moment1 (m) if centered, and momentum (the buffer) if μ
/// > 0.
class Rmsprop : public FusedOptimizer {
 public:
  explicit Rmsprop(std::vector<Parameter> parameters, RmspropOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  RmspropOptions options_;
};

}  // namespace vitrine::optim
