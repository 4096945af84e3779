// Activation functions. Each has a formula (ops/formulas.h) and a definition in simpler ops.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// max(x, 0); derivative 0 at 0.
Tensor relu(const Tensor& x);
/// x for x > 0, else slope·x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x·Φ(x) = x/2·(1 + erf(x/√2)). Hendrycks and Gimpel 2016.
Tensor gelu(const Tensor& x);
/// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))): the approximation of GPT-2.
Tensor gelu_tanh(const Tensor& x);
/// x·sigmoid(x), also called swish.
Tensor silu(const Tensor& x);
/// x for x > 0, else alpha·(eˣ − 1). Clevert et al. 2015.
Tensor elu(const Tensor& x, double alpha = 1);
/// eˣ for x < 0, else 1 + x: elu(x) + 1, but small results keep their digits.
Tensor elu_plus_one(const Tensor& x);
/// log(1 + eˣ), as max(x, 0) + log1p(e^−|x|).
Tensor softplus(const Tensor& x);
/// x/(1 + |x|).
Tensor softsign(const Tensor& x);
/// x·clamp(x/6 + 1/2, 0, 1).
Tensor hardswish(const Tensor& x);
/// x·tanh(softplus(x)). Misra 2019.
Tensor mish(const Tensor& x);
/// silu(a)·b where x = [a, b] along the last axis, its size halved: the gate of SwiGLU. Shazeer
/// 2020.
Tensor swiglu(const Tensor& x);

// The same functions in simpler ops, for tests and higher derivatives.
namespace define {
Tensor relu(const Tensor& x);  ///< NaN and −0 are unchanged, as in the kernel
Tensor leaky_relu(const Tensor& x, double slope);
Tensor gelu(const Tensor& x);
Tensor gelu_tanh(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor elu(const Tensor& x, double alpha);
Tensor elu_plus_one(const Tensor& x);
Tensor softplus(const Tensor& x);  ///< with log1p, so that no eˣ overflows
Tensor softsign(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor mish(const Tensor& x);
}  // namespace define

}  // namespace vitrine
