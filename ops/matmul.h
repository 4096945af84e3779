// Matrix products.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// NumPy's matmul: [..., n, k] · [..., k, m] → [..., n, m], leading axes broadcast; a vector
/// operand is a row or a column whose axis is dropped again. Transposed views are multiplied
/// without copies. float32 sums for the 16-bit types.
Tensor matmul(const Tensor& x, const Tensor& y);

/// x·Wᵀ + b with x [..., in], W [out, in], b [out] or undefined: a fully connected layer in one
/// pass.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// gelu_tanh(x·Wᵀ + b), the first half of a feed-forward layer: each block of the product is
/// activated before it leaves the cache, or on a GPU the registers. What was activated is kept for
/// the backward.
Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

namespace define {  // the same functions in simpler ops: what tests and higher derivatives use
/// matmul(x, weightᵀ) + bias.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// gelu_tanh(linear(x, weight, bias)).
Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias);
}  // namespace define

}  // namespace vitrine
