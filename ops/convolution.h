// Convolutions of images and of sequences.
#pragma once

#include "core/tensor.h"
#include "ops/windows.h"

namespace vitrine {

struct Conv1dOptions {
  int64_t stride = 1;
  Padding padding = 0;  ///< zeros; {K − 1, 0} makes a convolution of kernel K causal
  int64_t dilation = 1;
  int64_t groups = 1;
};

struct Conv2dOptions {
  PerAxis<int64_t> stride = 1;
  PerAxis<Padding> padding = 0;  ///< zeros
  PerAxis<int64_t> dilation = 1;
  int64_t groups = 1;
};

/// The sum of what each window of an image sees, weighted. With padding p and dilation d,
///   y[n, o, i, j] = bias[o] + Σ_{c, a, b} weight[o, c, a, b]·x[n, c, i·stride − p + a·d, …]
/// (a cross-correlation: the kernel is not flipped). x [N, C, H, W], weight [O, C/groups, Kh, Kw],
/// bias [O] or undefined → [N, O, H', W'], H' = ⌊(H + padding − (Kh − 1)·d − 1)/stride⌋ + 1. An
/// output sees the channels of its group. Saves x and weight. Errors: shapes that do not match, and
/// windows longer than the padded image. LeCun et al. 1998; Yu and Koltun 2016 (dilation).
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});
/// conv2d of sequences. x [N, C, T], weight [O, C/groups, K] → [N, O, T'].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

/// A causal kernel for each channel. y_t = Σ_k weight[k]·x_{t−K+1+k} + bias: the last tap is the
/// position itself. x [B, T, C], weight [C, K], bias [C] or undefined → [B, T, C]. `state`
/// [B, K − 1, C] has the inputs before x, 0 if undefined. Gu and Dao 2023 (Mamba), section 3.4.
Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const Tensor& state = {});
/// The state after x, for the next call: the last `kernel` − 1 inputs.
Tensor causal_conv1d_state(const Tensor& x, int64_t kernel, const Tensor& state = {});

namespace define {
/// A product with the weights of each tap, and the sum over taps.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options = {});
}  // namespace define

}  // namespace vitrine
