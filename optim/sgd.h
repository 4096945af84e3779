#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

struct SgdOptions {
  double lr = 1e-2;         ///< ≥ 0
  double momentum = 0;      ///< μ ≥ 0; 0: no buffer
  double dampening = 0;     ///< the fraction of g that is not added to the buffer, [0, 1]
  double weight_decay = 0;  ///< ≥ 0, coupled: added to the gradient
  bool nesterov = false;    ///< requires a momentum and no dampening
};

/// g += decay·x; buffer ← μ·buffer + (1 − dampening)·g, or g itself in the first step; x −=
/// lr·buffer, or lr·(g + μ·buffer) with Nesterov. Sutskever et al. 2013. State: `momentum` if μ >
/// 0.
class Sgd : public FusedOptimizer {
 public:
  explicit Sgd(std::vector<Parameter> parameters, SgdOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  SgdOptions options_;
};

}  // namespace vitrine::optim
