#include "nn/layers/norm.h"

#include "nn/init.h"

namespace vitrine::nn {

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

}  // namespace vitrine::nn
