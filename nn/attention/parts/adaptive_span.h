// Adaptive span (Sukhbaatar et al. 2019): each head learns how far back its queries look.
#pragma once

#include "nn/attention/part.h"

namespace vitrine::nn {

/// The weight of a key at distance x from the query is multiplied by m(x), and the weights are then
/// divided by their sum. m falls from 1 to 0 along a ramp after the span z of the head:
///
///   m(0) = 1,  m(x) = clamp((ramp + z − x)/ramp, 0, 1)         z = share·context
///
/// The share is learned. As a fraction, it suits the learning rate of other parameters. A query
/// always sees its own position, so that a span below 0 hides all others and is not an error.
class AdaptiveSpan : public AttentionPart {
 public:
  /// The share of every head starts as 1/2.
  AdaptiveSpan(const AttentionSizes& sizes, double ramp);
  Traits traits() const override { return {.distances = true}; }
  Tensor weight_factors(const Tensor& weights) const override;
  Tensor span() const;  ///< z [H], in positions
  void fields(Fields& f) override { f("share", share); }

  Parameter share;  ///< [H]

 private:
  double ramp_, context_;
};

/// The regularizer of the paper: the mean of max(z, 0) over the heads of an attention, summed over
/// all attentions with an adaptive span in the module. Add it to the loss with a small factor, such
/// as 2e-6. A module without such attention is an error.
Tensor span_penalty(Module& module);

}  // namespace vitrine::nn
