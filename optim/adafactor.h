#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct AdafactorOptions {
  double lr = 1e-2;             ///< ≥ 0
  bool relative_step = true;    ///< steps of min(lr, 1/√t) instead of lr
  bool scale_parameter = true;  ///< steps are multiplied by max(1e-3, RMS(x))
  double beta1 = 0;             ///< [0, 1); 0: no first moment
  double weight_decay = 0;      ///< ≥ 0, decoupled: x is multiplied by 1 − step·decay first
  double clip = 1;              ///< > 0: the largest RMS of an update
};

/// v of a matrix is factored into the means R of its rows and C of its columns, v = R·C/mean(R), of
/// g² + 1e-30 with decay β₂ = 1 − t^−0.8. u = g/√v, divided by max(1, RMS(u)/clip); x −= step·u.
/// Rows and columns are the last two axes; vectors keep all of v. Shazeer and Stern 2018. State:
/// rows (R) and columns (C), or moment2 (v) for vectors; moment1 if β₁ > 0. A g beyond 2^60 (2^400
/// in float64) is limited to that.
class Adafactor : public FusedOptimizer {
 public:
  explicit Adafactor(std::vector<Parameter> parameters, AdafactorOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  AdafactorOptions options_;
};

}  // namespace vitrine::optim
