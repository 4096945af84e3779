// Convolutions as layers, and the convolution module of the Conformer.
#include "nn/layers/convolution.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/tape.h"
#include "nn/layers/conformer_convolution.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::distance;

TEST_CASE("layers: the ops with weights of their own, which start within 1/√(weights of an output)") {
  nn::Conv1d sequence(4, 6, 5, {.padding = 2, .groups = 2});
  nn::Conv2d image(4, 6, {3, 2}, {.stride = 2}, nn::Bias::no);
  CHECK(sequence.weight.shape() == Shape{6, 2, 5});
  CHECK(image.weight.shape() == Shape{6, 4, 3, 2});
  const double largest = max(abs(Tensor(image.weight))).item(), bound = 1 / std::sqrt(24.0);
  CHECK(largest <= bound);
  CHECK(largest > 0.9 * bound);
  const Tensor x = test::random({2, 4, 9}, 1, DType::float32),
               y = test::random({2, 4, 7, 7}, 2, DType::float32);
  CHECK(distance(sequence.forward(x),
                 conv1d(x, sequence.weight, sequence.bias, {.padding = 2, .groups = 2})) == 0);
  CHECK(distance(sequence.clone().forward(x), sequence.forward(x)) == 0);
  CHECK(distance(image.clone().forward(y), conv2d(y, image.weight, {}, {.stride = 2})) == 0);
  CHECK(image.state_dict().count("bias") == 0);
  CHECK(test::error_of([] { nn::Conv1d(4, 6, 3, {.groups = 4}); }) ==
        "Conv1d: 4 inputs and 6 outputs do not divide into 4 groups");
  CHECK(test::error_of([] {
          nn::Conv2d(4, 6, {3, 0});
        }) == "Conv2d: the weights are [6, 4, 3, 0], wanted sizes of at least 1");
}

TEST_CASE("a causal layer decodes position by position, and its state has no gradient") {
  nn::CausalConv1d layer(3, 4);
  const Tensor x = test::random({2, 6, 3}, 1, DType::float32);
  Tensor state;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < 6; ++t) steps.push_back(layer.forward(slice(x, 1, t, t + 1), state));
  CHECK(distance(concat(steps, 1), layer.forward(x)) < 1e-6);
  CHECK(distance(layer.clone().forward(x), layer.forward(x)) == 0);
  Tape tape;
  CHECK(test::error_of([&] { layer.forward(x, state); }) ==
        "CausalConv1d: a state has no gradient; decode under Tape::Pause");
}

TEST_CASE("the convolution of the Conformer: norm, gate, depthwise, batch norm, SiLU, product") {
  nn::ConformerConvolution layer(4, 3);
  layer.to(DType::float64);
  uint64_t seed = 1;
  for (Parameter& p : layer.parameters()) p.assign(test::random(p.shape(), ++seed));
  const Tensor x = test::random({2, 5, 4}, 1), mean = test::random({4}, 90),
               variance = test::random({4}, 91, DType::float64, 0.5, 2);
  layer.batch_norm.running_mean = mean, layer.batch_norm.running_var = variance;
  layer.eval();
  const Tensor both =
      linear(layer_norm(x, layer.norm.weight, layer.norm.bias), layer.gate.weight, layer.gate.bias);
  const Tensor gated = slice(both, -1, 0, 4) * sigmoid(slice(both, -1, 4));
  const Tensor seen = transpose(
      conv1d(transpose(gated), layer.depthwise.weight, layer.depthwise.bias, {.padding = 1, .groups = 4}));
  const Tensor normal =
      (seen - mean) * rsqrt(variance + 1e-5) * layer.batch_norm.weight + layer.batch_norm.bias;
  const Tensor y = layer.forward(x);
  CHECK(distance(y, linear(silu(normal), layer.out.weight, layer.out.bias)) < 1e-14);
  CHECK(distance(layer.clone().forward(x), y) == 0);

  const Tensor lengths = index_tensor(std::vector<int64_t>{5, 3}, {2});
  const Tensor masked = layer.forward(x, lengths);
  const Tensor hidden = concat({slice(x, 1, 0, 3), exp(2 * slice(x, 1, 3))}, 1);
  CHECK(distance(select(masked, 0, 0), select(y, 0, 0)) == 0);
  const auto valid = [](const Tensor& t) { return slice(select(t, 0, 1), 0, 0, 3); };
  CHECK(distance(valid(layer.forward(hidden, lengths)), valid(masked)) == 0);
  CHECK(distance(valid(layer.forward(hidden)), valid(y)) > 1e-3);
  CHECK(distance(valid(masked), valid(layer.forward(slice(x, 1, 0, 3)))) < 1e-14);

  CHECK(test::error_of([] { nn::ConformerConvolution(4, 2); }) ==
        "ConformerConvolution: the kernel has 2 taps, wanted an odd number");
  CHECK(test::error_of([&] { layer.forward(slice(x, -1, 0, 3)); }) ==
        "ConformerConvolution: x is [2, 5, 3], wanted [B, T, 4]");
  CHECK(test::error_of([&] { layer.forward(x, slice(lengths, 0, 0, 1)); }) ==
        "zero_padding: x is [2, 5, 4] and the lengths are int64[1] on cpu, wanted [B, T, ...] and int64 [B]");
}
