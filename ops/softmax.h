// Softmax and related functions. Statistics are float32 for the 16-bit types. For a row of only −∞,
// softmax gives 0 and log_sum_exp gives −∞; its gradients are 0.
#pragma once

#include "ops/reduce.h"

namespace vitrine {

/// e^(x − lse), lse = log Σ eˣ. Backward: dx = y·(dy − Σ dy·y).
Tensor softmax(const Tensor& x, int64_t axis = -1);
/// x − lse. Backward: dx = dy − e^y·Σ dy.
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
/// log Σ eˣ = m + log Σ e^(x − m), m = max x, over any axes, or over all axes if `axes` is empty
/// (see ops/reduce.h). A reduction of no elements is an error. Backward: dx = dy·e^(x − lse).
Tensor log_sum_exp(const Tensor& x, const Axes& axes = {-1}, KeepAxes keep = KeepAxes::no);

namespace define {  // the same functions in simpler ops, for tests and higher derivatives
// Shifted by the row's maximum, which is detached: e^(x − m) never overflows, and the gradient
// equals the gradient of the unshifted formula.
Tensor softmax(const Tensor& x, int64_t axis);
Tensor log_softmax(const Tensor& x, int64_t axis);
Tensor log_sum_exp(const Tensor& x, const Axes& axes, KeepAxes keep = KeepAxes::no);
}  // namespace define

}  // namespace vitrine
