// Reversible residual layers (Gomez et al. 2017; Kitaev, Kaiser, Levskaya 2020): the backward pass
// computes the activations of a layer again from its outputs, so that none is stored.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace vitrine::nn {

/// The two functions of a layer: y1 = x1 + f(x2), then y2 = x2 + g(y1).
struct ReversibleLayer {
  std::function<Tensor(const Tensor&)> f, g;
};

/// Runs the layers in order on x1 and x2, two tensors of one shape and dtype. One node is recorded.
/// It saves the final y1 and y2, whatever the number of layers. The backward walks back: it runs g
/// again to get x2 = y2 − g(y1), then f for x1 = y1 − f(x2), and differentiates these runs. The
/// second runs draw the same random numbers. The inputs are reconstructed with rounding, about one
/// ulp of the sums per layer, so gradients differ from those of stored activations by that much; in
/// 16 bits this is much. On a tape of order 2 or more all is recorded.
std::pair<Tensor, Tensor> reversible(const std::vector<ReversibleLayer>& layers, const Tensor& x1,
                                     const Tensor& x2);

/// The same in ordinary ops, which store every activation.
std::pair<Tensor, Tensor> residual_layers(const std::vector<ReversibleLayer>& layers, const Tensor& x1,
                                          const Tensor& x2);

}  // namespace vitrine::nn
