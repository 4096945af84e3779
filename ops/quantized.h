// Matrices of weights in 8 bits, for generation: a product of few rows is limited by the reading of
// the weights, and 8 bits are a quarter of float32.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// A matrix W [N, K] with W[i, j] = scale[i] · (levels[i, j] − 128): a scale for each row, which is
/// an output of a linear layer. The levels 1 to 255 are symmetric around 128.
struct Int8Matrix {
  Tensor levels;  ///< uint8 [N, K]
  Tensor scale;   ///< float32 [N]

  bool defined() const { return levels.defined(); }
  Int8Matrix rows(int64_t begin, int64_t end) const;  ///< the rows [begin, end), as views
};

/// The nearest Int8Matrix of W [N, K], floating: scale[i] = max_j |W[i, j]| / 127, and an element
/// changes by at most scale[i] / 2. A row of zeros has the scale 0. Errors: another rank or dtype;
/// elements that are not finite. The CPU reads W, so a GPU is synchronized. Not differentiable.
/// Jacob et al. 2018, with symmetric levels.
Int8Matrix quantize_int8(const Tensor& weight);
/// The matrix in float32 [N, K].
Tensor dequantize(const Int8Matrix& weight);
/// x·Wᵀ + b with x [..., K], W [N, K], b [N] or undefined → [..., N]. The result has the dtype of
/// x, which is float32, bfloat16 or float16. The CPU reads the levels and converts them in
/// registers. A GPU multiplies by dequantize(W). Sums are float32. For inference only: a gradient
/// of x or b is an error.
Tensor linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias = {});

namespace define {  // the same function in simpler ops, for tests
/// linear(x, dequantize(weight), bias) in float32, rounded to the dtype of x.
Tensor linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias);
}  // namespace define

}  // namespace vitrine
