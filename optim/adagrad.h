#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct AdagradOptions {
  double lr = 1e-2;                ///< ≥ 0
  double eps = 1e-10;              ///< ≥ 0
  double weight_decay = 0;         ///< ≥ 0, coupled
  double lr_decay = 0;             ///< ≥ 0: the rate at step t is lr/(1 + (t − 1)·lr_decay)
  double initial_accumulator = 0;  ///< ≥ 0: v before the first step
};

/// g += decay·x; v ← v + g²; x −= lr·g/(√v + eps). Duchi, Hazan, Singer 2011. State: moment2 (v).
class Adagrad : public FusedOptimizer {
 public:
  explicit Adagrad(std::vector<Parameter> parameters, AdagradOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  AdagradOptions options_;
};

}  // namespace vitrine::optim
