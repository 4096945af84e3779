#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct ScheduleFreeOptions {
  double lr = 1e-3;                   ///< ≥ 0, meant to be constant after the warm-up
  double beta1 = 0.9, beta2 = 0.999;  ///< of the average in y, and of v; [0, 1)
  double eps = 1e-8;                  ///< ≥ 0; raised to at least 2^−63 (2^−511 in float64)
  double weight_decay = 0;            ///< ≥ 0, decoupled, at y
  int64_t warmup = 0;                 ///< ≥ 0: in step t the rate is lr·min(1, t/warmup)
};

/// AdamW without a schedule. Gradients are taken at y, which is the parameter: z −= γ(g/(√v̂ + eps)
/// + decay·y); the average x ← (1 − c)x + cz with c = γ_t²/Σγ²; y = (1 − β₁)z + β₁x. The weights c
/// follow the warm-up alone, so a rate that changes otherwise does not change them. The average is
/// the point to evaluate and to keep: move_to(Point::evaluation). Defazio et al., arXiv 2405.15682.
/// State: moment2 (v), base (z), average (x).
class ScheduleFreeAdamW : public FusedOptimizer {
 public:
  explicit ScheduleFreeAdamW(std::vector<Parameter> parameters, ScheduleFreeOptions options = {});

 private:
  bool averages() const override { return true; }
  void write_point(ParameterBatch& batch, Point point) override;
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  ScheduleFreeOptions options_;
};

}  // namespace vitrine::optim
