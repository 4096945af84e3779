// Reversible residual layers (Gomez et al. 2017; Kitaev, Kaiser, Levskaya 2020): the backward pass
// computes the activations of a layer again from its outputs, so that none is stored.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nn/transformer/stack.h"

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

/// A stack of blocks in which the memory of training does not depend on the depth: f is norm, mixer
/// and dropout, g is norm, feed-forward part and dropout. Both streams start as x, and the result
/// is their mean after a final norm: x [B, T, C] → [B, T, C].
class ReversibleStack : public Module {
 public:
  /// Errors: blocks that are not pre-norm, or that have a cross-attention or experts.
  explicit ReversibleStack(const StackOptions& options);
  /// Of the call, the mask, lengths, state and traces are used; with a state or traces, ordinary
  /// ops run. `causal` of the mixer's options is added to the mask.
  Tensor forward(const Tensor& x, const StackCall& call = {}) const;
  std::unique_ptr<StateList> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;
  ReversibleStack clone();

  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  Norm final_norm;

 private:
  StackOptions options_;
};

}  // namespace vitrine::nn
