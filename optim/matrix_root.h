// Roots of symmetric matrices, by their eigenvalues.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace vitrine::optim {

/// A = Σ_i values[i]·v_i·v_iᵀ with orthonormal v_i, which are the rows of `vectors` (row-major).
/// `values` are in no order.
struct Eigen {
  std::vector<double> values, vectors;
};

/// The eigenvalues and eigenvectors of a symmetric matrix, n × n and row-major, of which the lower
/// triangle is read: Householder's reduction to a tridiagonal matrix, then QL steps with implicit
/// shifts, in O(n³). Errors of eigenvalues are a small multiple of 2^−52·‖A‖. NaN and infinities
/// give NaN. Martin, Reinsch and Wilkinson 1968; Dubrulle, Martin and Wilkinson 1968.
Eigen symmetric_eigen(std::vector<double> a, int64_t n);

/// (x + eps·1)^(−1/p) of symmetric positive semidefinite matrices, each [n, n] in float32 or
/// float64 on any device, computed in float64 on the CPU. Eigenvalues of the sum below the rounding
/// error of x, n·ε·(the largest one), are raised to it. One thread works on one matrix.
std::vector<Tensor> inverse_roots(const std::vector<Tensor>& x, int64_t p, double eps);

}  // namespace vitrine::optim
