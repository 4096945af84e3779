// PowerNorm: normalization by a quadratic mean over the batch, without a mean. Shen et al. 2020.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// x/√(mean x² + eps)·weight + bias per channel of the last axis [C]; the mean is over all other
/// axes. The gradient is exact. Shen et al. 2020, equation 3 (PN-V).
Tensor power_norm_v(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

/// y = z·weight + bias with z = x/ψ and ψ = √(psi2 + eps) per channel of the last axis [C]. A
/// forward changes nothing. The backward is not the derivative, but an approximation:
/// dx = (weight·dy − nu·z)/ψ. It also updates both statistics, with means over the other axes:
///   psi2 ← alpha·psi2 + (1 − alpha)·mean x²
///   nu ← nu·(1 − (1 − alpha)·mean z²) + (1 − alpha)·mean(weight·dy·z)
/// psi2 and nu are constants [C] in the wide dtype of x. On a tape of order 2 or more the
/// derivative for a constant psi2 replaces the approximation. Shen et al. 2020, algorithm 2.
Tensor power_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& psi2,
                  const Tensor& nu, double alpha = 0.9, double eps = 1e-5);

namespace define {
/// The value in simpler ops, with the derivative for a constant psi2.
Tensor power_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& psi2, double eps);
}  // namespace define

}  // namespace vitrine
