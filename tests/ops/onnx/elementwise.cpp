// Elementwise operators, activations and dropout.
#include <cmath>

#include "core/creation.h"
#include "nn/layers/dropout.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

OnnxAdapter unary(Tensor (*f)(const Tensor&)) {
  return [f](Case c) -> Outputs { return {f(c.in(0))}; };
}

OnnxAdapter binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](Case c) -> Outputs { return {f(c.in(0), c.in(1))}; };
}

/// Combines one or more operands from the left.
OnnxAdapter fold(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](Case c) -> Outputs {
    Tensor y = c.in(0);
    for (size_t slot = 1; slot < c.slots; ++slot) y = f(y, c.in(slot));
    return {y};
  };
}

/// A missing bound is infinite; if the bounds cross, the result is the upper one.
Outputs clip(Case c) {
  const double low = c.has(1) ? c.in(1).item() : -INFINITY, high = c.has(2) ? c.in(2).item() : INFINITY;
  return {clamp(c.in(0), std::min(low, high), high)};
}

Outputs swish(Case c) {
  const double alpha = c.attribute("alpha", 1.0);
  return {alpha == 1 ? silu(c.in(0)) : c.in(0) * sigmoid(c.in(0) * alpha)};
}

/// The result has the dtype of the base.
Outputs power(Case c) { return {cast(pow(c.in(0), c.in(1)), c.in(0).dtype())}; }

/// In training the reference drops elements by another generator. So each element of our result
/// must be 0 or x/(1 − ratio), and the mask of the case replaces ours.
Outputs drop(Case c) {
  const Tensor x = c.in(0);
  const double ratio = c.has(1) ? c.in(1).item() : c.attribute("ratio", 0.5);
  nn::Dropout module(ratio);
  module.train(c.has(2) && c.in(2).item() != 0);
  const Tensor y = module.forward(x);
  if (!module.training() || ratio == 0) return {y, full(x.shape(), 1, DType::boolean)};
  const Tensor kept = x / (1 - ratio), zero = zeros_like(x);
  check(all(logical_or(equal(y, kept), equal(y, zero))).item() == 1,
        "dropout: an element is neither kept nor 0");
  const Tensor mask = c.wants(1) ? c.outputs[1] : not_equal(c.outputs.at(0), zero);
  return {where(mask, kept, 0.0), mask};
}

}  // namespace

const OnnxAdapters kElementwiseAdapters = {
    {"Abs", unary(abs)},
    {"Cos", unary(cos)},
    {"Erf", unary(erf)},
    {"Exp", unary(exp)},
    {"HardSwish", unary(hardswish)},
    {"Log", unary(log)},
    {"Mish", unary(mish)},
    {"Neg", unary(neg)},
    {"Reciprocal", unary(reciprocal)},
    {"Relu", unary(relu)},
    {"Sigmoid", unary(sigmoid)},
    {"Sin", unary(sin)},
    {"Softplus", unary(softplus)},
    {"Softsign", unary(softsign)},
    {"Sqrt", unary(sqrt)},
    {"Tanh", unary(tanh)},

    {"Add", binary(add)},
    {"Div", binary([](const Tensor& x, const Tensor& y) {
       return cast(div(x, y), x.dtype());
     })},  // truncates integers
    {"Mul", binary(mul)},
    {"Sub", binary(sub)},
    {"Pow", power},
    {"Max", fold(maximum)},
    {"Min", fold(minimum)},
    {"Where", [](Case c) -> Outputs { return {where(c.in(0), c.in(1), c.in(2))}; }},

    {"Clip", clip},
    {"Dropout", drop},
    {"Elu", [](Case c) -> Outputs { return {elu(c.in(0), c.attribute("alpha", 1.0))}; }},
    {"Gelu",
     [](Case c) -> Outputs {
       const bool approximate = c.attribute<std::string>("approximate", "none") == "tanh";
       return {approximate ? gelu_tanh(c.in(0)) : gelu(c.in(0))};
     }},
    {"LeakyRelu", [](Case c) -> Outputs { return {leaky_relu(c.in(0), c.attribute("alpha", 0.01))}; }},
    {"Swish", swish},
};

}  // namespace vitrine::test
