// The kernels of the optimizers: one call for all parameters of a group. At equal indices the lists
// hold contiguous tensors of equal shapes and dtypes, float32 or float64. `partners` are written in
// the same pass as x: x rounded to 16 bits or, where x is the bfloat16 upper half of a master, its
// lower half (core/halves.h). The list is empty, or an entry is undefined, if there is neither.
// Gradients g have the dtype of the master, or are bfloat16. They are multiplied by `factor` []
// (float64) when they are read; if it is undefined, by 1. The numbers of a step are computed once,
// in double.
#pragma once

#include <iterator>
#include <vector>

#include "core/gpu/capture.h"
#include "core/kernel_macros.h"
#include "core/tensor_kernels.h"
#include "optim/formulas.h"

namespace vitrine::optim {

using List = std::vector<Tensor>;

/// The number of states that a formula's update() has.
template <class Formula>
inline constexpr size_t kStatesOf = std::size(Formula::kStates);

/// What a step computes with: its formula, and its number t, from which random bits follow where
/// states are rounded.
template <class Formula>
struct Step {
  Formula formula;
  int64_t number = 0;
};

// Runs Formula::update on each element, in one pass. There is a kernel for each of
// VITRINE_UPDATE_FORMULAS. `states` holds the states of x[0], then those of x[1] and so on; a state
// that a parameter does not have is undefined. States of a float32 x can be bfloat16. They are then
// rounded stochastically (core/stochastic_rounding.h). The random bits follow from the numbers of
// the step, of the state and of the element, so that a parameter takes the same steps in any list.
// Declared by hand because VITRINE_KERNEL cannot declare templates. The kernel `copy` of core is
// found from this namespace as well.
namespace cpu {
using vitrine::cpu::copy;
template <class Formula>
void update(List& x, List& partners, const List& g, const Tensor& factor, List& states,
            Live<Step<Formula>> step);
}  // namespace cpu
namespace cuda {
using vitrine::cuda::copy;
template <class Formula>
void update(List& x, List& partners, const List& g, const Tensor& factor, List& states,
            Live<Step<Formula>> step);
}  // namespace cuda

/// m and v, the squares of x and u, and x −= rate·u, by formulas::Lamb.
VITRINE_KERNEL(lamb_step, List& x, List& partners, const List& g, const Tensor& factor, List& m, List& v,
               Live<formulas::Lamb> s);

/// total[0] (float64) = Σ x² over all tensors, in an order that depends only on their sizes.
VITRINE_KERNEL(sum_of_squares, Tensor& total, const List& xs);
/// factor = min(1, max_norm/(norm + 1e-6)), both [] in float64. 0 on a GPU if the norm is not
/// finite, which is an error.
VITRINE_KERNEL(clip_factor, Tensor& factor, const Tensor& norm, double max_norm);
/// x *= max_norm/(norm + 1e-6) if that factor is less than 1; any strides. norm [] (float64); a
/// norm that is not finite is an error.
VITRINE_KERNEL(clip_all, List& xs, const Tensor& norm, double max_norm);
/// x *= factor; any strides.
VITRINE_KERNEL(scale_all, List& xs, double factor);

}  // namespace vitrine::optim
