// Kernels as plain loops over float64. Read the plain loop before the tuned kernel of the same
// name, which follows it in the op's file or is in ops/cpu/. Tests compare the tuned kernels with
// the plain loops. Tensors are contiguous and contain finite numbers. The plain loop of a matrix
// product is in ops/cpu/gemm/plain.h.
#pragma once

#include "core/tensor.h"
#include "ops/attention.h"
#include "ops/windows.h"

namespace vitrine::plain {

/// Rows of x [..., n].
void softmax(Tensor& y, const Tensor& x);
void softmax_backward(Tensor& dx, const Tensor& dy, const Tensor& y);

/// Rows of x [..., n]; weight and bias [n].
void layer_norm(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
void layer_norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, double eps);

/// logits [rows, V], targets int64 [rows]; one loss per row.
void cross_entropy(Tensor& losses, const Tensor& logits, const Tensor& targets);
void cross_entropy_backward(Tensor& dx, const Tensor& dlosses, const Tensor& logits, const Tensor& targets);

/// x [N, C, H, W], weight [O, C/groups, kernel of rows, kernel of columns] → y [N, O, H', W'].
void convolution(Tensor& y, const Tensor& x, const Tensor& weight, const Windows& windows);

/// One head: q [Tq, D], k [Tk, D], v [Tk, Dv]. A causal attention aligns the last query with the
/// last key.
void attention(Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal);
void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, double scale, bool causal);

}  // namespace vitrine::plain
