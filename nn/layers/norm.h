// LayerNorm and RMSNorm with learned gains.
#pragma once

#include "core/names.h"
#include "nn/module.h"
#include "ops/norm.h"

namespace vitrine::nn {

/// LayerNorm, or RMSNorm, which has no mean and no bias.
enum class NormKind { layer, rms };
inline EnumNames<NormKind> names_of(NormKind) {
  return {"norm", {{"layer", NormKind::layer}, {"rms", NormKind::rms}}};
}

/// LayerNorm or RMSNorm over the last axis, with a gain (and a bias for LayerNorm).
class Norm : public Module {
 public:
  explicit Norm(int64_t width, NormKind kind = NormKind::layer, double eps = 1e-5);
  /// x [..., width] → the same shape
  Tensor forward(const Tensor& x) const;
  AddNorm forward(const Tensor& x, const Tensor& residual) const;  ///< x + residual, and its norm
  void fields(Fields& f) override;
  Norm clone();

  Parameter weight, bias;

 private:
  NormKind kind_;
  double eps_;
};

}  // namespace vitrine::nn
