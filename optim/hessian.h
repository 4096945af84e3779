// Estimates of the diagonal of a loss's Hessian, as Sophia uses them.
#pragma once

#include <functional>
#include <vector>

#include "core/parameter.h"
#include "core/random.h"

namespace vitrine::optim {

/// u ∘ Hu for a vector u of random signs. Its mean over u is the diagonal of the Hessian H. The
/// loss is computed on a tape of order 2, where each op runs as its definition. Compared with a
/// gradient, this takes the time and the memory of two more passes. Hutchinson 1989.
std::vector<Tensor> hutchinson(const std::vector<Parameter>& parameters, const std::function<Tensor()>& loss,
                               Generator& generator = default_generator());

/// N·g∘g for N rows of logits [.., V]. Labels are drawn from the softmax of the logits, and g is
/// the gradient of the mean cross-entropy against these labels. The mean of the estimate is the
/// diagonal of the Gauss-Newton matrix of the mean cross-entropy, so no element is negative.
/// `logits` is called once, and the cost is that of one gradient. Liu et al. 2023, algorithm 2.
std::vector<Tensor> gauss_newton_bartlett(const std::vector<Parameter>& parameters,
                                          const std::function<Tensor()>& logits,
                                          Generator& generator = default_generator());

}  // namespace vitrine::optim
