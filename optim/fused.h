// The base of rules that are kernels: one pass over all parameters of a group.
#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

/// A rule whose kernels write x and its 16-bit copies together, and take all that changes from step
/// to step as Live numbers, so that a CUDA graph can hold them.
class FusedOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;

  /// One step of formula(group, t), of optim/formulas-inl.h, for the whole batch. The states are
  /// those that the formula names. Include optim/step_elements.h where it is called.
  template <class F>
  void step_elements(ParameterBatch& batch, F formula) const;

 private:
  bool writes_copies() const final { return true; }
  bool is_capturable() const final { return true; }
};

}  // namespace vitrine::optim
