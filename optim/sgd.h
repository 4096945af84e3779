#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

struct SgdOptions {
  double lr = 1e-2, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

/// g += decay·x; buffer ← μ·buffer + (1 − dampening)·g (g itself at first); x −= lr·buffer, or lr·(g + μ·buffer) with
/// Nesterov.
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<Parameter> parameters, SgdOptions options = {});

 private:
  void update(Batch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<Slot> slots(const Shape& shape) const override;
  SgdOptions options_;
};

}  // namespace vitrine::optim
