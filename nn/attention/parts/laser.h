// LASER's read of the values (Duvvuri and Dhillon 2024).
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// log(weights·e^v), computed so that neither small nor large values lose digits
/// (nn/attention/laser.cpp), in float32 or float64: e^v does not fit into less. The weights are the
/// softmax of `scores`, which tell weights too small for their dtype apart; undefined, where they
/// are no softmax. `visible`, broadcast to [B, H, Tq, Tk] or undefined, says which keys have a
/// weight: those that none sees have no influence.
Tensor laser_read(const Tensor& weights, const Tensor& scores, const Tensor& v, const Tensor& visible = {});

}  // namespace vitrine::nn
