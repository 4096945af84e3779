#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct AdadeltaOptions {
  double lr = 1;            ///< ≥ 0
  double rho = 0.9;         ///< of both averages, [0, 1)
  double eps = 1e-6;        ///< > 0: with 0 the first step would be 0
  double weight_decay = 0;  ///< ≥ 0, coupled
};

/// g += decay·x; v ← ρv + (1 − ρ)g²; u = √(w + eps)/√(v + eps)·g; w ← ρw + (1 − ρ)u²; x −= lr·u.
/// Zeiler 2012. State: moment2 (v) and steps (w).
class Adadelta : public FusedOptimizer {
 public:
  explicit Adadelta(std::vector<Parameter> parameters, AdadeltaOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  AdadeltaOptions options_;
};

}  // namespace vitrine::optim
