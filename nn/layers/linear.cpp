#include "nn/layers/linear.h"

#include <utility>

#include "core/tape.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

const Int8Matrix& without_gradient(const Int8Matrix& matrix, const Parameter& weight) {
  check(
      Tape::recording() == nullptr,
      "Linear: the weight {} is rounded to 8 bits and has no gradient; run under Tape::Pause, or train a model "
      "without quantize_linear_layers",
      weight.name());
  return matrix;
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, Bias with_bias, double deviation)
    : weight(normal({out, in}, deviation)) {
  if (with_bias == Bias::yes) bias = constant({out}, 0);
}
Tensor Linear::forward(const Tensor& x) const { return product(x, bias.defined() ? bias.value() : Tensor()); }
Tensor Linear::product(const Tensor& x, const Tensor& b) const {
  const Tensor y =
      int8.defined() ? linear_int8(x, without_gradient(int8, weight), b) : vitrine::linear(x, weight, b);
  return lora ? y + lora->forward(x) : y;
}
Tensor Linear::product(const Tensor& x, const Tensor& b, int64_t begin, int64_t end) const {
  const Tensor y = int8.defined() ? linear_int8(x, without_gradient(int8, weight).rows(begin, end), b)
                                  : vitrine::linear(x, slice(weight, 0, begin, end), b);
  return lora ? y + lora->forward(x, begin, end) : y;
}
Tensor Linear::forward_gelu_tanh(const Tensor& x) const {
  if (int8.defined() || lora) return gelu_tanh(forward(x));
  return vitrine::linear_gelu_tanh(x, weight, bias.defined() ? bias.value() : Tensor());
}
void Linear::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
  f("lora", lora);
}
Linear Linear::clone() {
  return clone_into([this] {
    const int64_t in = weight.shape()[1], out = weight.shape()[0];
    return Linear(in, out, bias.defined() ? Bias::yes : Bias::no);
  });
}
std::function<void()> Linear::adapt_to(Module& source) {
  const auto* const other = dynamic_cast<Linear*>(&source);
  auto theirs = other && other->lora ? std::make_unique<LowRank>(other->lora->clone()) : nullptr;
  const auto own = std::make_shared<std::unique_ptr<LowRank>>(std::exchange(lora, std::move(theirs)));
  return [this, own] { lora = std::move(*own); };
}

void quantize_linear_layers(Module& module) {
  module.apply([&module](const std::string&, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (layer && module.paths_of(layer->weight).size() == 1)
      layer->int8 = quantize_int8(layer->weight.master());
  });
}

}  // namespace vitrine::nn
