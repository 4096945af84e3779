// A linear layer: y = x·Wᵀ + b.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Whether a layer has a bias, a learned constant per output.
enum class Bias : bool { no, yes };

/// y = x·Wᵀ + b. W [out, in] starts as N(0, deviation²), b as 0.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, Bias bias = Bias::yes, double deviation = 0.02);
  Tensor forward(const Tensor& x) const;            ///< x [..., in] → [..., out]
  Tensor forward_gelu_tanh(const Tensor& x) const;  ///< gelu_tanh(forward(x)), in one pass
  void fields(Fields& f) override;
  Linear clone();

  Parameter weight, bias;  ///< [out, in] and [out]; undefined without bias
};

}  // namespace vitrine::nn
