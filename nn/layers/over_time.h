// One vector of a sequence, without parameters: the mean and the maximum over its positions.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The mean over the first lengths[b] positions of row b: x [B, T, C] → [B, C]. `lengths` is int64
/// [B]; undefined: T. A row without positions gives 0. Values after the length, NaN too, have no
/// effect.
Tensor mean_over_time(const Tensor& x, const Tensor& lengths = {});

/// The largest value of each channel over the same positions. A row without positions gives 0.
/// Collobert et al. 2011 (max over time).
Tensor max_over_time(const Tensor& x, const Tensor& lengths = {});

/// The mean of the rows n of x [N, C] for which real[n], bool [N], is true: [C]. Undefined: of all
/// rows. 0 if it is true for none. Other rows, NaN too, have no effect.
Tensor mean_of_real(const Tensor& x, const Tensor& real);

}  // namespace vitrine::nn
