#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct LambOptions {
  double lr = 1e-3;                   ///< ≥ 0
  double beta1 = 0.9, beta2 = 0.999;  ///< of m and v, [0, 1)
  /// ≥ 0; raised to at least 2^−63 (2^−511 in float64), so that elements without a gradient do not
  /// move.
  double eps = 1e-6;
  double weight_decay = 0;           ///< ≥ 0, a part of u
  double phi_min = 0, phi_max = 10;  ///< the bounds of φ
};

/// u = m̂/(√v̂ + eps) + decay·x; x −= lr·φ(‖x‖)/‖u‖·u for each parameter. φ clips to [phi_min,
/// phi_max]; the ratio is 1 if a norm is 0. You et al., arXiv 1904.00962 version 5. State: moment1
/// (m) and moment2 (v).
class Lamb : public FusedOptimizer {
 public:
  explicit Lamb(std::vector<Parameter> parameters, LambOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  LambOptions options_;
};

}  // namespace vitrine::optim
