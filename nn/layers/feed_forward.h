// The feed-forward part of a Transformer block.
#pragma once

#include "core/names.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// The activation functions (ops/activation.h), and the gated ones of Shazeer 2020: act(gate)·value
/// for the halves [gate, value] of the input.
enum class Activation { relu, gelu, gelu_tanh, silu, swiglu, geglu, reglu };
inline EnumNames<Activation> names_of(Activation) {
  return {"activation",
          {{"relu", Activation::relu},
           {"gelu", Activation::gelu},
           {"gelu_tanh", Activation::gelu_tanh},
           {"silu", Activation::silu},
           {"swiglu", Activation::swiglu},
           {"geglu", Activation::geglu},
           {"reglu", Activation::reglu}}};
}

/// The activation of x. A gated one halves the last axis. geglu has the exact gelu as its gate.
Tensor activate(Activation activation, const Tensor& x);
/// How many inputs an activation has for each output: 2 for a gated one, else 1.
int64_t inputs_per_output(Activation activation);

/// W₂·act(W₁·x + b₁) + b₂. For a gated activation W₁ has twice as many rows: first the gate, then
/// the value. Vaswani et al. 2017; Shazeer 2020.
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
