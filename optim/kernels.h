// The update kernels of the optimizers, on contiguous tensors of one dtype, float32 or float64. The scalars of a step are
// computed once, in double.
#pragma once

#include "core/kernel.h"

namespace vitrine::optim {

struct AdamScalars {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  double coupled_decay = 0;    ///< added to the gradient, times x
  double decoupled_decay = 0;  ///< x is multiplied by 1 − lr·decay first
  /// x −= lr·(m_factor·m + g_factor·g)/(√(v_factor·v) + eps); without the denominator where v_factor is 0.
  double m_factor = 1, g_factor = 0, v_factor = 1;
};
/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², then x as above. `largest`, if defined, becomes max(largest, v) and takes v's
/// place (amsgrad).
VITRINE_CPU_KERNEL(adam_step, Tensor& x, const Tensor& g, Tensor& m, Tensor& v, Tensor& largest,
                   AdamScalars s);

struct SgdScalars {
  double lr = 0, momentum = 0, dampening = 0, decay = 0;
  bool nesterov = false, first = false;
};
/// g += decay·x; buffer ← momentum·buffer + (1 − dampening)·g, or g at first; x −= lr·(buffer, or g + momentum·buffer).
VITRINE_CPU_KERNEL(sgd_step, Tensor& x, const Tensor& g, Tensor& buffer, SgdScalars s);

/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g.
VITRINE_CPU_KERNEL(lion_step, Tensor& x, const Tensor& g, Tensor& m, double lr, double beta1, double beta2,
                   double decay);

}  // namespace vitrine::optim
