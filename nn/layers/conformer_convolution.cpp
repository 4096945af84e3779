#include "nn/layers/conformer_convolution.h"

#include "nn/layers/zero_padding.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The padding on both sides that keeps the length.
Padding same(int64_t kernel) {
  check(kernel >= 1 && kernel % 2 == 1, "ConformerConvolution: the kernel has {} taps, wanted an odd number",
        kernel);
  return kernel / 2;
}

}  // namespace

ConformerConvolution::ConformerConvolution(int64_t width, int64_t kernel)
    : norm(width),
      gate(width, 2 * width),
      depthwise(width, width, kernel, {.padding = same(kernel), .groups = width}),
      batch_norm(width),
      out(width, width) {}

Tensor ConformerConvolution::forward(const Tensor& x, const Tensor& lengths) const {
  const int64_t width = depthwise.weight.shape()[0];
  check(x.rank() == 3 && x.size(2) == width, "ConformerConvolution: x is {}, wanted [B, T, {}]", x.shape(),
        width);
  const auto halves = split(gate.forward(norm.forward(x)), width, -1);
  Tensor h = zero_padding(halves[0] * sigmoid(halves[1]), lengths);
  h = batch_norm.forward(depthwise.forward(transpose(h)));
  return out.forward(transpose(silu(h)));
}

void ConformerConvolution::fields(Fields& f) {
  f("norm", norm);
  f("gate", gate);
  f("depthwise", depthwise);
  f("batch_norm", batch_norm);
  f("out", out);
}

ConformerConvolution ConformerConvolution::clone() {
  return clone_into(
      [this] { return ConformerConvolution(depthwise.weight.shape()[0], depthwise.weight.shape()[2]); });
}

}  // namespace vitrine::nn
