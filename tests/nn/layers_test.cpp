#include "nn/layers/dropout.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/models/gpt.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Tensor draw(const Shape& shape) {
  static Generator generator(8);
  return randn(shape, DType::float64, Device::cpu, 0, 1, generator);
}

void randomize(Module& module) {
  module.to(DType::float64);
  for (Parameter& p : module.parameters()) p.assign(draw(p.shape()));
}

bool close(const Tensor& x, const Tensor& y) { return spec::distance(x.values(), y.values(), 0.1) < 1e-13; }

}  // namespace

TEST_CASE(
    "feed-forward: W₂·act(W₁·x + b₁) + b₂ for every activation; gated ones take gate and value from "
    "W₁'s halves") {
  const Tensor x = draw({3, 4});
  for (const char* name : {"relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "reglu"}) {
    FeedForward f(4, 6, value_named<Activation>(name), Bias::yes, 1);
    randomize(f);
    const Tensor h = matmul(x, transpose(f.up.weight)) + f.up.bias;
    const std::string kind = name;
    Tensor a;
    if (kind == "relu") a = relu(h);
    if (kind == "gelu") a = gelu(h);
    if (kind == "gelu_tanh") a = gelu_tanh(h);
    if (kind == "silu") a = silu(h);
    if (kind == "swiglu") a = swiglu(h);
    if (kind == "geglu") a = gelu(slice(h, 1, 0, 6)) * slice(h, 1, 6);
    if (kind == "reglu") a = relu(slice(h, 1, 0, 6)) * slice(h, 1, 6);
    CHECK_MESSAGE(close(f.forward(x), matmul(a, transpose(f.down.weight)) + f.down.bias), name);
    CHECK(f.up.weight.shape()[0] == (kind.ends_with("glu") ? 12 : 6));
  }
  CHECK_THROWS_WITH_AS(value_named<Activation>("glu"), doctest::Contains("there is no activation glu"),
                       Error);
}

TEST_CASE("norms: mean 0 and square 1 before gain and bias; RMS keeps the mean") {
  const Tensor x = draw({5, 64}) + 3;
  Norm layer(64), rms(64, NormKind::rms);
  layer.to(DType::float64), rms.to(DType::float64);
  CHECK(close(mean(layer.forward(x), {1}), zeros({5}, DType::float64)));
  CHECK(spec::distance(mean(square(layer.forward(x)), {1}).values(), std::vector<double>(5, 1), 1) < 1e-4);
  CHECK(spec::distance(mean(square(rms.forward(x)), {1}).values(), std::vector<double>(5, 1), 1) < 1e-4);
  CHECK(mean(rms.forward(x)).item() > 0.8);
  CHECK(layer.state_dict().count("bias") == 1);
  CHECK(rms.state_dict().count("bias") == 0);
}

TEST_CASE("dropout acts in training only, keeps the mean, and wants a probability") {
  Dropout dropout(0.25);
  const Tensor x = ones({20000});
  const Tensor y = dropout.forward(x);
  CHECK(mean(y).item() == doctest::Approx(1).epsilon(0.02));
  int zeros = 0;
  for (double v : y.values()) {
    zeros += v == 0;
    CHECK((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
  }
  CHECK(zeros / 20000.0 == doctest::Approx(0.25).epsilon(0.05));
  dropout.eval();
  CHECK(dropout.forward(x).values() == x.values());
  CHECK_THROWS_WITH_AS(Dropout(1), doctest::Contains("wanted [0, 1)"), Error);
}

TEST_CASE("tied weights: one parameter, whose gradient is the sum of both uses") {
  Gpt model({.vocabulary = 5, .context = 4, .width = 6, .layers = 1, .heads = 2});
  randomize(model);
  const Tensor x = index_tensor(std::vector<int64_t>{1, 2, 1}, {1, 3}),
               y = index_tensor(std::vector<int64_t>{2, 1, 4}, {1, 3});
  CHECK(model.state_dict().count("tokens.weight") == 1);
  {
    Tape tape;
    tape.backward(cross_entropy(model.forward(x), y));
  }
  // The two uses separately: the features as a function of one table, the logits as a function of
  // another one.
  Tensor in = copy_as(model.tokens.weight.master(), DType::float64), out = copy_as(in, DType::float64);
  Tensor features;
  {
    Tape tape;
    tape.watch(out);
    features = model.features(x);
    const auto g = tape.gradient(cross_entropy(linear(features, out), y), {out, model.tokens.weight});
    CHECK(close(g[0] + g[1], model.tokens.weight.grad()));
    CHECK(!close(g[0], model.tokens.weight.grad()));
  }
}
