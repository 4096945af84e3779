// Estimates of the diagonal of a loss's Hessian, as Sophia uses them.
#pragma once

#include <functional>
#include <vector>

#include "core/parameter.h"
#include "core/random.h"

namespace vitrine::optim {

/// u ∘ Hu for random signs u, whose mean is the diagonal of the Hessian H. `loss` is run on a tape
/// of order 2, so every op that it uses stores its definition. Costs two more passes than a
/// gradient, and their memory. Hutchinson 1989.
std::vector<Tensor> hutchinson(const std::vector<Parameter>& parameters, const std::function<Tensor()>& loss,
                               Generator& generator = default_generator());

/// rows·g∘g, where g is the gradient of the mean cross-entropy against labels drawn from softmax of
/// the logits [.., V]; `logits` is run once. Its mean is the diagonal of the Gauss-Newton matrix of
/// the mean cross-entropy, and so is never negative. Costs one gradient. Liu et al. 2023, algorithm
/// 2.
std::vector<Tensor> gauss_newton_bartlett(const std::vector<Parameter>& parameters,
                                          const std::function<Tensor()>& logits,
                                          Generator& generator = default_generator());

}  // namespace vitrine::optim
