// Generation by a model whose linear layers have weights in 8 bits.
#include <doctest/doctest.h>

#include <cmath>

#include "nn/generation/generate.h"
#include "nn/models/gpt.h"
#include "tests/nn/generation/lively.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("a model with rounded linear layers gives what a model with the rounded weights gives") {
  for (const bool tied : {true, false}) {
    GptOptions options = test::tiny_gpt("rotary");
    options.tied = tied;
    Gpt model = test::lively(options), twin = model.clone();
    const auto before = model.forward(test::ids(2, 5)).values();
    quantize_linear_layers(model);
    int layers = 0;
    twin.apply([&layers](const std::string&, Module& m) {
      auto* const layer = dynamic_cast<Linear*>(&m);
      if (layer == nullptr) return;
      layer->weight.assign(dequantize(quantize_int8(layer->weight)));
      ++layers;
    });
    CHECK(layers == (tied ? 8 : 9));
    const auto got = model.forward(test::ids(2, 5)).values(), want = twin.forward(test::ids(2, 5)).values();
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-4);
    CHECK(got != before);
    CHECK(generate(model, {3, 1}, 12, {.temperature = 0}) == generate(twin, {3, 1}, 12, {.temperature = 0}));
    CHECK(model.clone().forward(test::ids(2, 5)).values() == before);
  }
}

TEST_CASE("a block with a source reads rows of the rounded weights") {
  const MixerOptions sizes{.width = 8, .heads = 2};
  MultiHeadAttention attention(sizes), twin = attention.clone();
  quantize_linear_layers(attention);
  for (Linear* layer : {&twin.query_key_value, &twin.out})
    layer->weight.assign(dequantize(quantize_int8(layer->weight)));
  Generator g(1);
  const Tensor x = randn({2, 3, 8}, DType::float32, Device::cpu, 0, 1, g),
               source = randn({2, 5, 8}, DType::float32, Device::cpu, 0, 1, g);
  const auto got = attention.forward(x, {.source = source}).values(),
             want = twin.forward(x, {.source = source}).values();
  for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-6);
}

TEST_CASE("rounded layers refuse to be recorded, and name the weight") {
  Gpt model = test::lively(test::tiny_gpt());
  quantize_linear_layers(model);
  const Tape tape;
  CHECK_THROWS_WITH_AS(model.forward(test::ids(1, 3)),
                       doctest::Contains("blocks.0.attention.query_key_value.weight is rounded to 8 bits"),
                       Error);
}
