// The update kernels of the optimizers: one call for all parameters of a group. Lists hold contiguous tensors of equal shapes
// and dtypes at equal places, float32 or float64. The scalars of a step are computed once, in double.
#pragma once

#include "core/capture.h"
#include "core/kernel.h"

namespace vitrine::optim {

using List = std::vector<Tensor>;

/// What a step of Adam and its relatives multiplies by.
struct AdamScalars {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  double coupled_decay = 0;    ///< added to the gradient, times x
  double decoupled_decay = 0;  ///< x is multiplied by 1 − lr·decay first
  /// x −= lr·(m_factor·m + g_factor·g)/(√(v_factor·v) + eps); without the denominator where v_factor is 0.
  double m_factor = 1, g_factor = 0, v_factor = 1;
};
/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², then x as above. `largest`, if not empty, becomes max(largest, v) and takes v's
/// place (amsgrad). `copies`, if not empty, are bfloat16 and get the new x.
VITRINE_KERNEL(adam_step, List& x, List& copies, const List& g, List& m, List& v, List& largest,
               Live<AdamScalars> s);

/// m and v as above; norms [n, 2] (float64): ‖x‖ and ‖u‖ for u = m_factor·m/(√(v_factor·v) + eps) + decoupled_decay·x.
VITRINE_KERNEL(lamb_moments, Tensor& norms, const List& x, const List& g, List& m, List& v, AdamScalars s);
/// x −= rates[i]·u.
VITRINE_KERNEL(lamb_step, List& x, const List& m, const List& v, const std::vector<double>& rates,
               AdamScalars s);

struct SgdScalars {
  double lr = 0, momentum = 0, dampening = 0, decay = 0;
  bool nesterov = false;
};
/// g += decay·x; buffer ← momentum·buffer + (1 − dampening)·g, or g where first[i]; x −= lr·(buffer, or
/// g + momentum·buffer). `buffer` is empty without momentum.
VITRINE_KERNEL(sgd_step, List& x, const List& g, List& buffer, const std::vector<bool>& first,
               Live<SgdScalars> s);

struct LionScalars {
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0;
};
/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g.
VITRINE_KERNEL(lion_step, List& x, const List& g, List& m, Live<LionScalars> s);

/// total[0] (float64) = Σ x² over all tensors, in an order that depends on their sizes only.
VITRINE_KERNEL(sum_of_squares, Tensor& total, const List& xs);
/// x *= max_norm/(norm + 1e-6) where that is below 1; any strides. norm [] (float64); one that is not finite is an error.
VITRINE_KERNEL(clip_all, List& xs, const Tensor& norm, double max_norm);
/// x *= factor; any strides.
VITRINE_KERNEL(scale_all, List& xs, double factor);

}  // namespace vitrine::optim
