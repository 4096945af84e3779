#include "nn/layers/linear.h"

#include "nn/init.h"
#include "ops/matmul.h"

namespace vitrine::nn {

Linear::Linear(int64_t in, int64_t out, Bias with_bias, double deviation)
    : weight(normal({out, in}, deviation)) {
  if (with_bias == Bias::yes) bias = constant({out}, 0);
}
Tensor Linear::forward(const Tensor& x) const {
  return vitrine::linear(x, weight, bias.defined() ? bias.value() : Tensor());
}
Tensor Linear::forward_gelu_tanh(const Tensor& x) const {
  return vitrine::linear_gelu_tanh(x, weight, bias.defined() ? bias.value() : Tensor());
}
void Linear::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}
Linear Linear::clone() {
  return clone_into(
      [this] { return Linear(weight.shape()[1], weight.shape()[0], bias.defined() ? Bias::yes : Bias::no); });
}

}  // namespace vitrine::nn
