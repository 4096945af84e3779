// Normalization over the last axis or axes. layer_norm and rms_norm square x in its wide dtype.
// Rows of float32 and the 16-bit types beyond about ±2^60 therefore give 0, and numbers far below
// √eps are normalized by eps. l2_normalize has no such bounds.
#pragma once

#include <utility>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// (x − mean)/√(var + eps)·weight + bias over the last axis, [C], or over as many of the last axes
/// as weight and bias have. The variance is biased; weight and bias may be undefined. The result
/// has x's dtype for every dtype of weight and bias. Saves mean and 1/√(var + eps) per row, in
/// float32 for the 16-bit types. Ba, Kiros, Hinton: Layer normalization, 2016.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// x/√(mean x² + eps)·weight over the same axes. Zhang, Sennrich 2019.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);
/// The results of add_layer_norm and add_rms_norm. Both have the same shape and dtype, so they can
/// be read by name only: a structured binding, which goes by order, does not compile.
class AddNorm {
 public:
  AddNorm(Tensor sum, Tensor y) : sum_(std::move(sum)), y_(std::move(y)) {}
  const Tensor& sum() const { return sum_; }
  const Tensor& y() const { return y_; }
  std::vector<Tensor> tensors() const { return {sum_, y_}; }

 private:
  Tensor sum_, y_;
};
/// A residual connection and its norm in one pass: sum = x + residual, and y = layer_norm(sum, …)
/// or rms_norm(sum, …) over the last axis. x and residual have the same shape; the results have
/// their promoted dtype. Saves sum and, per row, what the norm saves.
AddNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                       const Tensor& bias = {}, double eps = 1e-5);
AddNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {}, double eps = 1e-5);
/// x/√(Σx² + eps) over the last axis: unit vectors, for cosine attention. A zero row stays zero.
Tensor l2_normalize(const Tensor& x, double eps = 0);

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
// Computed in the wide dtype and rounded once; the variance is the mean of (x − mean)².
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);
AddNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                       double eps);
AddNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps);
}  // namespace define

}  // namespace vitrine
