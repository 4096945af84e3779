#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct SophiaOptions {
  double lr = 1e-4;                   ///< ≥ 0
  double beta1 = 0.96, beta2 = 0.99;  ///< of m and h, [0, 1)
  double gamma = 0.05;                ///< > 0: a smaller one clips more elements
  double weight_decay = 0;            ///< ≥ 0, decoupled
  int64_t every = 10;                 ///< ≥ 1, steps from one estimate to the next
};

/// m ← β₁m + (1 − β₁)g; x ← (1 − lr·decay)x − lr·clip(m/max(γh, 1e-12), −1, 1), where h ← β₂h + (1
/// − β₂)·estimate is a mean of estimates of the Hessian's diagonal. The program gives the
/// estimates, before the steps that need one. nn/training/trainer.h does so by itself. Liu et al.,
/// arXiv 2305.14342. State: moment1 (m) and hessian (h).
///
///   if (sophia.needs_estimate()) sophia.add_estimates(parameters, hutchinson(parameters, loss));
class Sophia : public FusedOptimizer {
 public:
  explicit Sophia(std::vector<Parameter> parameters, SophiaOptions options = {});
  /// True before the steps 1, 1 + every, ….
  bool needs_estimate() const override { return steps() % options_.every == 0; }
  void add_estimates(const std::vector<Parameter>& parameters, const std::vector<Tensor>& estimates) override;

 private:
  /// Error: no parameter of the batch has had an estimate.
  void check_ready(const ParameterBatch& batch) const override;
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  SophiaOptions options_;
};

}  // namespace vitrine::optim
