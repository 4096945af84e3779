// The update kernels of the optimizers: one call for all parameters of a group. Lists hold contiguous tensors of equal shapes
// and dtypes at equal places, float32 or float64. `copies` get the new x rounded to 16 bits, in the same pass: empty, or undefined where
// a parameter has no copy. The scalars of a step are computed once, in double. Below, g² and √v + eps stand for limited(g)² and
// √v + in_denominator(eps).
#pragma once

#include "core/gpu/capture.h"
#include "core/kernel_macros.h"
#include "core/math.h"

namespace vitrine::optim {

using List = std::vector<Tensor>;

/// The largest gradient whose square is used: 2^60 in float32 and 2^400 in float64, so that squares and their sums are finite.
template <class T>
inline constexpr T kLargestGradient = static_cast<T>(sizeof(T) == 4 ? 0x1p60 : 0x1p400);

/// g, or the largest gradient with the sign of g where g is larger; NaN where g is NaN or infinite. Rules that divide by the
/// root of squares take it in place of g. Without it the moments of finite gradients would be infinite, and would stay so.
template <class T>
VITRINE_HD T limited(T g) {
  constexpr T most = kLargestGradient<T>;
  return math::max(math::min(g, most), -most) + g * T(0);
}

/// eps as it is added to √v: at least the root of the smallest normal T, below which v vanishes but g does not.
template <class T>
VITRINE_HD T in_denominator(double eps) {
  return T(math::max(eps, sizeof(T) == 4 ? 0x1p-63 : 0x1p-511));
}
/// eps as it is added to v: at least the smallest normal T.
template <class T>
VITRINE_HD T under_root(double eps) {
  return T(math::max(eps, sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022));
}

/// What a step of Adam and its relatives multiplies by.
struct AdamScalars {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  double coupled_decay = 0;    ///< added to the gradient, times x
  double decoupled_decay = 0;  ///< x is multiplied by 1 − lr·decay first
  /// x −= lr·(m_factor·m + g_factor·g)/(√(v_factor·v) + eps); without the denominator where v_factor is 0.
  double m_factor = 1, g_factor = 0, v_factor = 1;
};
/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², then x as above. `largest`, if not empty, becomes max(largest, v) and takes v's
/// place (amsgrad).
VITRINE_KERNEL(adam_step, List& x, List& copies, const List& g, List& m, List& v, List& largest,
               Live<AdamScalars> s);

struct LambScalars {
  AdamScalars adam;
  double phi_min = 0, phi_max = 0;

  /// lr·φ(‖x‖)/‖u‖ from Σx² and Σu².
  VITRINE_HD double rate(double of_x, double of_u) const {
    if (!(of_x > 0 && of_u > 0)) return adam.lr;
    return adam.lr * math::min(math::max(math::sqrt(of_x), phi_min), phi_max) / math::sqrt(of_u);
  }
};
/// m and v as above; u = m_factor·m/(√(v_factor·v) + eps) + decoupled_decay·x; x −= rate·u, one rate for each x.
VITRINE_KERNEL(lamb_step, List& x, List& copies, const List& g, List& m, List& v, Live<LambScalars> s);

struct SgdScalars {
  double lr = 0, momentum = 0, dampening = 0, decay = 0;
  bool nesterov = false;
};
/// g += decay·x; buffer ← momentum·buffer + (1 − dampening)·g, or g where first[i]; x −= lr·(buffer, or
/// g + momentum·buffer). `buffer` is empty without momentum.
VITRINE_KERNEL(sgd_step, List& x, List& copies, const List& g, List& buffer, const std::vector<bool>& first,
               Live<SgdScalars> s);

struct LionScalars {
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0;
};
/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g.
VITRINE_KERNEL(lion_step, List& x, List& copies, const List& g, List& m, Live<LionScalars> s);

struct RmspropScalars {
  double lr = 0, beta2 = 0, eps = 0, momentum = 0, decay = 0;
};
/// g += decay·x; v ← β₂v + (1 − β₂)g²; u = g/(√v + eps), with m ← β₂m + (1 − β₂)g and √max(v − m², 0) if `m` is not empty;
/// x −= lr·u, or lr·buffer with buffer ← momentum·buffer + u if that is not empty.
VITRINE_KERNEL(rmsprop_step, List& x, List& copies, const List& g, List& v, List& m, List& buffer,
               Live<RmspropScalars> s);

struct AdagradScalars {
  double lr = 0, eps = 0, decay = 0;
};
/// g += decay·x; v ← v + g²; x −= lr·g/(√v + eps).
VITRINE_KERNEL(adagrad_step, List& x, List& copies, const List& g, List& v, Live<AdagradScalars> s);

struct AdadeltaScalars {
  double lr = 0, rho = 0, eps = 0, decay = 0;
};
/// g += decay·x; v ← ρv + (1 − ρ)g²; u = √(steps + eps)/√(v + eps)·g; steps ← ρ·steps + (1 − ρ)u²; x −= lr·u.
VITRINE_KERNEL(adadelta_step, List& x, List& copies, const List& g, List& v, List& steps,
               Live<AdadeltaScalars> s);

/// total[0] (float64) = Σ x² over all tensors, in an order that depends on their sizes only.
VITRINE_KERNEL(sum_of_squares, Tensor& total, const List& xs);
/// x *= max_norm/(norm + 1e-6) where that is below 1; any strides. norm [] (float64); one that is not finite is an error.
VITRINE_KERNEL(clip_all, List& xs, const Tensor& norm, double max_norm);
/// x *= factor; any strides.
VITRINE_KERNEL(scale_all, List& xs, double factor);

}  // namespace vitrine::optim
