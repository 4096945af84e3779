// LASER's read of the values (Duvvuri and Dhillon 2024).
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// log(weights·e^v), in float32 or float64, since narrower dtypes cannot hold e^v. It is computed
/// so that neither small nor large values lose precision (nn/attention/parts/laser.cpp). The
/// weights are the softmax of `scores`, which distinguish weights too small for their dtype;
/// `scores` is undefined if the weights are not a softmax. `visible`, broadcast to [B, H, Tq, Tk]
/// or undefined, marks the keys that have a weight. A key that no query sees has no influence.
Tensor laser_read(const Tensor& weights, const Tensor& scores, const Tensor& v, const Tensor& visible = {});

}  // namespace vitrine::nn
