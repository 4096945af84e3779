#include "nn/layers.h"

#include "core/record.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"

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

Embedding::Embedding(int64_t count, int64_t width, double deviation)
    : weight(normal({count, width}, deviation)) {}
Tensor Embedding::forward(const Tensor& ids) const { return embedding(weight, ids); }
void Embedding::fields(Fields& f) { f("weight", weight); }
Embedding Embedding::clone() {
  return clone_into([this] { return Embedding(weight.shape()[0], weight.shape()[1]); });
}

Norm::Norm(int64_t width, NormKind kind, double eps) : weight(constant({width}, 1)), kind_(kind), eps_(eps) {
  if (kind == NormKind::layer) bias = constant({width}, 0);
}
Tensor Norm::forward(const Tensor& x) const {
  return kind_ == NormKind::layer ? layer_norm(x, weight, bias, eps_) : rms_norm(x, weight, eps_);
}
AddNorm Norm::forward(const Tensor& x, const Tensor& residual) const {
  return kind_ == NormKind::layer ? add_layer_norm(x, residual, weight, bias, eps_)
                                  : add_rms_norm(x, residual, weight, eps_);
}
void Norm::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
}
Norm Norm::clone() {
  return clone_into([this] { return Norm(weight.numel(), kind_, eps_); });
}

Dropout::Dropout(double p) : p_(p) {
  check(p >= 0 && p < 1, "Dropout: the probability is {}, wanted [0, 1)", p);
}
Tensor Dropout::forward(const Tensor& x) const { return training() && p_ > 0 ? dropout(x, p_) : x; }
Dropout Dropout::clone() {
  return clone_into([this] { return Dropout(p_); });
}

NormKind norm_kind_of(const std::string& name) {
  if (name == "layer") return NormKind::layer;
  if (name == "rms") return NormKind::rms;
  fail("there is no norm {}: wanted layer or rms", name);
}

Activation activation_of(const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  if (name == "silu") return Activation::silu;
  if (name == "swiglu") return Activation::swiglu;
  fail("there is no activation {}: wanted relu, gelu, gelu_tanh, silu or swiglu", name);
}

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
