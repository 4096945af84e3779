// The feed-forward part of a Transformer block.
#pragma once

#include "core/names.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// The activation functions; see ops/activation.h.
enum class Activation { relu, gelu, gelu_tanh, silu, swiglu };
inline EnumNames<Activation> names_of(Activation) {
  return {"activation",
          {{"relu", Activation::relu},
           {"gelu", Activation::gelu},
           {"gelu_tanh", Activation::gelu_tanh},
           {"silu", Activation::silu},
           {"swiglu", Activation::swiglu}}};
}

/// W₂·act(W₁·x + b₁) + b₂. For SwiGLU, W₁ has twice as many rows: first the gate, then the value.
/// Vaswani et al. 2017; Shazeer 2020.
class FeedForward : public Module {
 public:
  FeedForward(int64_t width, int64_t hidden, Activation activation, Bias bias, double out_deviation);
  Tensor forward(const Tensor& x) const;  ///< x [..., width] → the same shape
  void fields(Fields& f) override;
  FeedForward clone();

  Linear up, down;

 private:
  Activation activation_;
};

}  // namespace vitrine::nn
