// The kernels of the optimizers: one call for all parameters of a group. Lists hold contiguous
// tensors of equal shapes and dtypes at equal places, float32 or float64. `copies` get the new x
// rounded to 16 bits, in the same pass: empty, or undefined where a parameter has no copy. The
// numbers of a step are computed once, in double.
#pragma once

#include <iterator>
#include <vector>

#include "core/gpu/capture.h"
#include "core/kernel_macros.h"
#include "optim/formulas.h"

namespace vitrine::optim {

using List = std::vector<Tensor>;

/// The number of states that a formula's update() takes.
template <class Formula>
inline constexpr size_t kStatesOf = std::size(Formula::kStates);

// Formula::update of each element, in one pass: a kernel for each of VITRINE_UPDATE_FORMULAS.
// `states` holds those of x[0], then those of x[1] and so on; what a parameter does not have is
// undefined. VITRINE_KERNEL declares no templates.
namespace cpu {
template <class Formula>
void update(List& x, List& copies, const List& g, List& states, Live<Formula> formula);
}
namespace cuda {
template <class Formula>
void update(List& x, List& copies, const List& g, List& states, Live<Formula> formula);
}

/// m and v, the squares of x and u, and x −= rate·u, as formulas::Lamb says.
VITRINE_KERNEL(lamb_step, List& x, List& copies, const List& g, List& m, List& v, Live<formulas::Lamb> s);

/// total[0] (float64) = Σ x² over all tensors, in an order that depends on their sizes only.
VITRINE_KERNEL(sum_of_squares, Tensor& total, const List& xs);
/// x *= max_norm/(norm + 1e-6) where that is below 1; any strides. norm [] (float64); one that is
/// not finite is an error.
VITRINE_KERNEL(clip_all, List& xs, const Tensor& norm, double max_norm);
/// x *= factor; any strides.
VITRINE_KERNEL(scale_all, List& xs, double factor);

}  // namespace vitrine::optim
