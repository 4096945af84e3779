// Stacks of blocks for tests.
#pragma once

#include "core/random.h"
#include "nn/transformer/stack.h"

namespace vitrine::test {

/// A float64 stack, an nn::Encoder or nn::Decoder, whose weights are drawn from this seed.
template <class Stack>
Stack seeded(const nn::StackOptions& options, uint64_t seed = 5) {
  manual_seed(seed);
  Stack stack(options);
  stack.to(DType::float64);
  return stack;
}

}  // namespace vitrine::test
