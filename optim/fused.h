// The base class of rules that are kernels: one pass over all parameters of a group.
#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

/// A rule whose kernels write x and its partners together. All numbers that change from step
/// to step are Live arguments, so that a CUDA graph can capture the step.
class FusedOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;

  /// Runs one step of formula(group, t), a formula of optim/formulas-inl.h, for the whole batch.
  /// The formula names its states. Callers include optim/step_elements.h.
  template <class F>
  void step_elements(ParameterBatch& batch, F formula) const;

  /// The state `name` of p: a mean that decays, of p's shape, that the kernel of update() writes.
  /// It can be in 16 bits (set_moments).
  static StateSlot moment(std::string name, const Parameter& p) {
    return {.name = std::move(name), .shape = p.shape(), .is_moment = true};
  }

 private:
  bool writes_partners() const final { return true; }
  bool is_capturable() const final { return true; }
};

}  // namespace vitrine::optim
