// Products and sums of tensors over named axes.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// NumPy's einsum: "bhid,bhjd->bhij" multiplies the operands elementwise over all named axes and
/// sums over the axes that the output does not name. A letter that occurs twice in one operand
/// takes the diagonal. "..." stands for leading axes, which broadcast, as do sizes of 1. Without
/// "->" the output is "..." followed by the letters that occur once, in alphabetical order. Pairs
/// are contracted by batched matmul, starting with the pair that needs the fewest multiplications.
/// Dtypes are promoted; bool is an error. With one operand the result may be a view of it.
Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& xs);

}  // namespace vitrine
