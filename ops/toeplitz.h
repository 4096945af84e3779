// Toeplitz matrices, which are constant along their diagonals, and the sums of diagonals.
#pragma once

#include "core/tensor.h"

namespace vitrine {

/// View of x [.., R] as matrices [.., rows, R − rows + 1]: element (i, j) is
/// x[.., j − i + rows − 1]. A bias that depends on the distance of query and key is such a matrix.
/// Errors: fewer rows than 1, or more than R.
Tensor toeplitz(const Tensor& x, int64_t rows);
/// [.., rows, columns] → [.., rows + columns − 1]: element r is the sum over j − i + rows − 1 = r,
/// from the lowest diagonal to the highest one. 16-bit numbers are summed in float32.
Tensor sum_diagonals(const Tensor& x);

namespace define {  // the same in simpler ops
Tensor sum_diagonals(const Tensor& x);
}  // namespace define

}  // namespace vitrine
