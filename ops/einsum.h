// Products and sums of tensors over named axes.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// NumPy's einsum: "bhid,bhjd->bhij" multiplies the operands elementwise over all named axes and
/// sums over those that the output does not name. A letter twice in one operand takes the diagonal;
/// "..." stands for leading axes that broadcast, as sizes of 1 do. Without "->" the output is "..."
/// and then the letters that occur once, in alphabetical order. Pairs are contracted by batched
/// matmul, first the pair that takes the fewest multiplications. Dtypes are promoted; bool is an
/// error. With one operand y may be a view of it.
Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& xs);

}  // namespace vitrine
