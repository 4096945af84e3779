// Batches without rows: layers and models give empty results and zero gradients; a mean over
// nothing is an error.
#include <doctest/doctest.h>

#include "core/tape.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("a model of an empty batch has empty logits, and gradients that are 0") {
  for (const char* name : {"standard", "laser+qk_norm+alibi", "cosine+rotary"}) {
    INFO(std::string(name));
    Gpt model(test::tiny_gpt(name));
    const Tensor ids = zeros({0, 5}, DType::int64);
    Tape tape;
    const Tensor logits = model.forward(ids);
    CHECK(logits.shape() == Shape{0, 5, 11});
    CrossEntropyOptions total;
    total.reduction = Reduction::sum;
    const Tensor loss = cross_entropy(logits, ids, total);
    CHECK(loss.item() == 0);
    tape.backward(loss);
    for (const auto& parameter : model.named_parameters()) {
      INFO(parameter.first);
      const Tensor gradient = parameter.second.grad();
      CHECK((!gradient.defined() || max(abs(gradient)).item() == 0));
    }
  }
}

TEST_CASE("the cross-entropy of no targets is 0; the mean of no elements is an error that names the op") {
  const Tensor logits = zeros({0, 5}), none = zeros({0}, DType::int64);
  CHECK(cross_entropy(logits, none).item() == 0);  // as if every target is ignored
  CHECK(nll_loss(logits, none).item() == 0);
  CHECK_THROWS_WITH(mean(logits), doctest::Contains("mean: x has the shape [0, 5]: there are no elements"));
  CHECK_THROWS_WITH(mse_loss(logits, logits), doctest::Contains("mse_loss: there is no mean of no losses"));
}
