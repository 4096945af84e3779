// A step of a rule that updates each element separately. The .cpp files of such rules include this
// file.
#pragma once

#include "optim/fused.h"
#include "optim/kernels.h"

namespace vitrine::optim {

template <class F>
void FusedOptimizer::step_elements(ParameterBatch& batch, F formula) const {
  const auto live = numbers(batch, formula);
  using Formula = decltype(live.value);
  List states = batch.slots(Formula::kStates);
  VITRINE_RUN_AS(Formula::kName, update<Formula>, batch.x, batch.partners, batch.g, batch.factor, states,
                 live, step_number(batch));
}

}  // namespace vitrine::optim
