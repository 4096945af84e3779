// Convolutions in which each channel has its own kernel and its own output (groups = channels). A
// product would have a single row, so these kernels add up taps directly. Kernel contracts:
// ops/kernels.h.
#pragma once

#include "core/tensor.h"
#include "ops/windows.h"

namespace vitrine::cpu {

void depthwise(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& windows);
void depthwise_backward_x(Tensor& dx, const Tensor& dy, const Tensor& weight, const Windows& windows);
void depthwise_backward_weight(Tensor& dweight, const Tensor& dy, const Tensor& x, const Windows& windows);

}  // namespace vitrine::cpu
