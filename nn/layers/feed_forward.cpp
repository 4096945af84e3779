#include "nn/layers/feed_forward.h"

#include "core/record.h"
#include "ops/activation.h"

namespace vitrine::nn {

FeedForward::FeedForward(int64_t width, int64_t hidden, Activation activation, Bias bias,
                         double out_deviation)
    : up(width, activation == Activation::swiglu ? 2 * hidden : hidden, bias),
      down(hidden, width, bias, out_deviation),
      activation_(activation) {}

Tensor FeedForward::forward(const Tensor& x) const {
  const ModuleScope scope("feed_forward");
  switch (activation_) {
    case Activation::relu: return down.forward(relu(up.forward(x)));
    case Activation::gelu: return down.forward(gelu(up.forward(x)));
    case Activation::gelu_tanh: return down.forward(up.forward_gelu_tanh(x));
    case Activation::silu: return down.forward(silu(up.forward(x)));
    case Activation::swiglu: return down.forward(swiglu(up.forward(x)));
  }
  fail("FeedForward: unknown activation");
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
