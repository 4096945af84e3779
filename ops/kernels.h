// Every kernel of the operations, declared once for CPU and CUDA (core/kernel.h). The op checks and
// allocates; the kernel only computes. CPU kernels are in the op's file or, where tuned, under ops/cpu/; CUDA
// twins in cuda/ under the same stem.
//
// Where not said otherwise tensors are contiguous, and statistics have the wide dtype of their input (float32
// for the 16-bit types).
#pragma once

#include "core/kernels.h"
#include "ops/formulas.h"

namespace vitrine {

// -- Elementwise: equal shapes, any strides (broadcast operands are expanded views), one dtype

/// y = f(x); y may be x. `a` and `b` are the formula's parameters.
VITRINE_CPU_KERNEL(unary, Tensor& y, const Tensor& x, Unary op, double a, double b);
/// dx = dy·f'(x), where y = f(x).
VITRINE_CPU_KERNEL(unary_backward, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, Unary op,
                   double a, double b);
/// z = f(x, y); z may be x or y.
VITRINE_CPU_KERNEL(binary, Tensor& z, const Tensor& x, const Tensor& y, Binary op);
/// z (bool) = x op y.
VITRINE_CPU_KERNEL(compare, Tensor& z, const Tensor& x, const Tensor& y, Comparison op);
/// z = x op y, all bool.
VITRINE_CPU_KERNEL(logic, Tensor& z, const Tensor& x, const Tensor& y, Logic op);
/// z = condition ? x : y.
VITRINE_CPU_KERNEL(choose, Tensor& z, const Tensor& condition, const Tensor& x, const Tensor& y);

// -- Matrix products

/// z = x·y, or z += x·y where `add`, over the last two axes; the leading axes of x and y broadcast to those of
/// z. Of the last two strides of x and of y one is 1. z may be float32 for 16-bit x and y.
VITRINE_CPU_KERNEL(matmul, Tensor& z, const Tensor& x, const Tensor& y, bool add);
/// y = x·weightᵀ + bias: x [rows, in], weight [out, in] contiguous, bias [out] or undefined.
VITRINE_CPU_KERNEL(linear, Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace vitrine
