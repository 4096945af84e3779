#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct LionOptions {
  double lr = 1e-4;         ///< ≥ 0; a third to a tenth of AdamW's
  double beta1 = 0.9;       ///< of the direction, [0, 1)
  double beta2 = 0.99;      ///< of m, [0, 1)
  double weight_decay = 0;  ///< ≥ 0, decoupled
};

/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g. Chen et al. 2023. State: moment1
/// (m).
class Lion : public FusedOptimizer {
 public:
  explicit Lion(std::vector<Parameter> parameters, LionOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  LionOptions options_;
};

}  // namespace vitrine::optim
