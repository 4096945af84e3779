// Self-attention and cross-attention use the same positions, and empty batches are allowed.
#include "nn/attention/multi_head.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE(
    "cross-attention of the last rows of its source gives the last rows of self-attention, also with positions") {
  for (const char* name : {"standard", "rotary", "alibi", "rotary+alibi", "rotary+laser"}) {
    INFO(std::string(name));
    Generator g(5);
    const MultiHeadAttention layer({.width = 8, .heads = 2, .context = 16, .name = name});
    const Tensor source = randn({2, 7, 8}, DType::float32, Device::cpu, 0, 5, g);
    for (const bool causal : {false, true}) {
      const AttentionMask mask{.causal = causal};
      const Tensor all = layer.forward(source, {.mask = mask});
      for (const int64_t queries : {1, 3, 7}) {
        const auto last = [&](const Tensor& x) { return slice(x, 1, 7 - queries); };
        const Tensor got = layer.forward(last(source), {.mask = mask, .source = source});
        CHECK(spec::distance(got.values(), last(all).values(), 1e-3) <= 1e-5);
      }
    }
  }
}

TEST_CASE("more queries than keys are at positions before the first key") {
  Generator g(6);
  MultiHeadAttention layer({.width = 8, .heads = 2, .context = 16, .name = "rotary"});
  const Tensor x = randn({1, 6, 8}, DType::float32, Device::cpu, 0, 5, g), source = slice(x, 1, 2);
  // The last four queries are at the positions of the four keys.
  const Tensor y = layer.forward(x, {.source = source}), want = layer.forward(source, {});
  CHECK(spec::distance(slice(y, 1, 2).values(), want.values(), 1e-3) <= 1e-5);
}

TEST_CASE("an empty batch, and empty sequences, give empty results and zero gradients") {
  for (const char* name : {"standard", "rotary+laser", "cosine+alibi", "qk_norm+softcap=5"})
    for (const Shape& shape : {Shape{0, 4, 8}, Shape{2, 0, 8}}) {
      INFO(std::string(name), shape[0]);
      MultiHeadAttention layer({.width = 8, .heads = 2, .context = 16, .name = name});
      const Tensor x = zeros(shape);
      Tape tape;
      const Tensor y = layer.forward(layer.forward(x, {.mask = {.causal = true}}), {.source = x});
      CHECK(y.shape() == shape);
      tape.backward(sum(y));
      for (const double d : layer.query_key_value.weight.grad().values()) CHECK(d == 0);
    }
}
