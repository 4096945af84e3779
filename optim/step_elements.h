// A step of a rule that updates each element separately. The .cpp files of such rules include this
// file.
#pragma once

#include <type_traits>

#include "optim/fused.h"
#include "optim/kernels.h"

namespace vitrine::optim {

template <class F>
void FusedOptimizer::step_elements(ParameterBatch& batch, F formula) const {
  using Formula = std::invoke_result_t<F, const GroupOptions&, int64_t>;
  const auto step = numbers(batch, [formula](const GroupOptions& group, int64_t t) {
    return Step<Formula>{formula(group, t), t};
  });
  List states = batch.slots(Formula::kStates);
  VITRINE_RUN_AS(Formula::kName, update<Formula>, batch.x, batch.partners, batch.g, batch.factor, states,
                 step);
}

}  // namespace vitrine::optim
