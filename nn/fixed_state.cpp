#include "nn/fixed_state.h"

#include <utility>

#include "core/tape.h"
#include "ops/view.h"

namespace vitrine::nn {

std::unique_ptr<DecodingState> FixedState::clone() const {
  const Tape::Pause pause;
  auto copy = std::make_unique<FixedState>(*this);
  for (Tensor& x : copy->states) x = vitrine::clone(x);
  return copy;
}

std::vector<Tensor*> FixedState::tensors() {
  std::vector<Tensor*> all;
  for (Tensor& x : states) all.push_back(&x);
  return all;
}

void FixedState::advance(int64_t positions, std::vector<Tensor> after) {
  states = std::move(after);
  length_ += positions;
}

FixedState* FixedState::of(DecodingState* state, const std::string& kind) {
  if (state == nullptr) return nullptr;
  auto* const own = dynamic_cast<FixedState*>(state);
  check(own != nullptr && own->kind_ == kind,
        "{}: the state is one of another mixer; wanted what make_state of the same mixer gave", kind);
  check(Tape::recording() == nullptr, "{}: a state has no gradient; decode under Tape::Pause", kind);
  return own;
}

}  // namespace vitrine::nn
