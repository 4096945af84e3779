// The convolution module of the Conformer.
#pragma once

#include "nn/layers/batch_norm.h"
#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"

namespace vitrine::nn {

/// x [B, T, C] → [B, T, C]: layer norm, a linear layer to 2C, a gated linear unit (the first half
/// times σ of the second), a depthwise convolution that keeps the length, batch norm, SiLU, and a
/// linear layer to C. Without residual connection and dropout, which belong to the block. With
/// lengths (int64 [B]), no position sees positions after its row's length; only the statistics of a
/// training batch include them. Errors: an even kernel. Gulati et al. 2020, section 2.2.
class ConformerConvolution : public Module {
 public:
  ConformerConvolution(int64_t width, int64_t kernel);
  Tensor forward(const Tensor& x, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  ConformerConvolution clone();

  Norm norm;
  Linear gate;  ///< to 2C
  Conv1d depthwise;
  BatchNorm batch_norm;
  Linear out;
};

}  // namespace vitrine::nn
