// The header of a model is sufficient for its users: this file includes no other header of the
// library.
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

TEST_CASE("a model can be recorded with its header alone") {
  vitrine::nn::Gpt model({.vocabulary = 5, .context = 4, .width = 4, .layers = 1, .heads = 1});
  vitrine::Tape tape;
  const vitrine::Tensor logits = model.forward(vitrine::zeros({1, 2}, vitrine::DType::int64));
  tape.backward(logits, vitrine::ones_like(logits));
  CHECK(model.tokens.weight.grad().defined());
}
