#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

struct LionOptions {
  double lr = 1e-4;         ///< ≥ 0; a third to a tenth of AdamW's
  double beta1 = 0.9;       ///< of the direction, [0, 1)
  double beta2 = 0.99;      ///< of m, [0, 1)
  double weight_decay = 0;  ///< ≥ 0, decoupled
};

/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g. Chen et al. 2023. State: moment1 (m).
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Parameter> parameters, LionOptions options = {});

 private:
  bool writes_copies() const override { return true; }
  bool is_capturable() const override { return true; }
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Shape& shape) const override;
  LionOptions options_;
};

}  // namespace vitrine::optim
