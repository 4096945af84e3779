// Matrix products.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// NumPy's matmul: [..., n, k] · [..., k, m] → [..., n, m]; leading axes broadcast. A vector
/// operand is treated as a row or a column, and the result has no axis for it. Transposed views are
/// multiplied without copies. Sums are float32 for the 16-bit types.
Tensor matmul(const Tensor& x, const Tensor& y);

/// x·Wᵀ + b with x [..., in], W [out, in], b [out] or undefined. A fully connected layer in one
/// pass.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// gelu_tanh(x·Wᵀ + b), the first half of a feed-forward layer. Each block of the product is
/// activated before it leaves the cache or, on a GPU, the registers. Saves the input of the
/// activation.
Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
/// matmul(x, weightᵀ) + bias.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// gelu_tanh(linear(x, weight, bias)).
Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias);
}  // namespace define

}  // namespace vitrine
