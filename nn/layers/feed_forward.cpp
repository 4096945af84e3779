#include "nn/layers/feed_forward.h"

#include "core/record.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

Tensor gated(Tensor (*gate)(const Tensor&), const Tensor& x) {
  check(x.rank() >= 1 && x.size(-1) % 2 == 0,
        "activate: x is {}, wanted an even last axis: a gate and a value per output", x.shape());
  const int64_t half = x.size(-1) / 2;
  return gate(slice(x, -1, 0, half)) * slice(x, -1, half);
}

}  // namespace

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
    case Activation::swiglu: return swiglu(x);
    case Activation::geglu: return gated(gelu, x);
    case Activation::reglu: return gated(relu, x);
  }
  fail("activate: unknown activation");
}

int64_t inputs_per_output(Activation a) {
  return a == Activation::swiglu || a == Activation::geglu || a == Activation::reglu ? 2 : 1;
}

FeedForward::FeedForward(int64_t width, int64_t hidden, Activation activation, Bias bias,
                         double out_deviation)
    : up(width, inputs_per_output(activation) * hidden, bias),
      down(hidden, width, bias, out_deviation),
      activation_(activation) {}

Tensor FeedForward::forward(const Tensor& x) const {
  const ModuleScope scope("feed_forward");
  // A linear layer computes this activation in the same pass.
  if (activation_ == Activation::gelu_tanh) return down.forward(up.forward_gelu_tanh(x));
  return down.forward(activate(activation_, up.forward(x)));
}
void FeedForward::fields(Fields& f) {
  f("up", up);
  f("down", down);
}
FeedForward FeedForward::clone() {
  return clone_into([this] {
    const Shape& w = down.weight.shape();
    return FeedForward(w[0], w[1], activation_, down.bias.defined() ? Bias::yes : Bias::no, 0);
  });
}

}  // namespace vitrine::nn
