#include "nn/mixer.h"

#include <algorithm>

#include "core/tape.h"
#include "ops/index.h"

namespace vitrine::nn {

int64_t DecodingState::bytes() const {
  int64_t sum = 0;
  for (const Tensor* x : const_cast<DecodingState*>(this)->tensors())
    if (x->defined()) sum += x->numel() * static_cast<int64_t>(size_of(x->dtype()));
  return sum;
}

void DecodingState::reorder(const Tensor& rows) {
  const Tape::Pause pause;
  for (Tensor* x : tensors())
    if (x->defined()) *x = index_select(*x, 0, rows);
}

int64_t StateList::capacity() const {
  int64_t least = limit;
  for (const auto& state : states) least = std::min(least, state->capacity());
  return least;
}

std::unique_ptr<DecodingState> StateList::clone() const {
  auto copy = std::make_unique<StateList>();
  copy->limit = limit;
  for (const auto& state : states) copy->states.push_back(state->clone());
  return copy;
}

std::vector<Tensor*> StateList::tensors() {
  std::vector<Tensor*> all;
  for (const auto& state : states)
    for (Tensor* x : state->tensors()) all.push_back(x);
  return all;
}

}  // namespace vitrine::nn
