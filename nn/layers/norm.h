// LayerNorm and RMSNorm with learned gains.
#pragma once

#include <string>

#include "nn/module.h"
#include "ops/norm.h"

namespace vitrine::nn {

/// LayerNorm, or RMSNorm, which leaves out mean and bias.
enum class NormKind { layer, rms };
NormKind norm_kind_of(const std::string& name);  ///< layer or rms; others are an error that lists them

/// LayerNorm or RMSNorm over the last axis, with a gain (and a bias for LayerNorm).
class Norm : public Module {
 public:
  explicit Norm(int64_t width, NormKind kind = NormKind::layer, double eps = 1e-5);
  Tensor forward(const Tensor& x) const;                           ///< x [..., width], of the same shape
  AddNorm forward(const Tensor& x, const Tensor& residual) const;  ///< x + residual, and its norm
  void fields(Fields& f) override;
  Norm clone();

  Parameter weight, bias;

 private:
  NormKind kind_;
  double eps_;
};

}  // namespace vitrine::nn
