// The layers that need a line each: linear, embedding, norms, dropout, feed-forward.
#pragma once

#include <string>

#include "nn/module.h"
#include "ops/norm.h"

namespace vitrine::nn {

/// Whether a layer adds a learned constant per output.
enum class Bias : bool { no, yes };

/// y = x·Wᵀ + b. W [out, in] starts as N(0, deviation²), b as 0.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, Bias bias = Bias::yes, double deviation = 0.02);
  Tensor forward(const Tensor& x) const;            ///< x [..., in] → [..., out]
  Tensor forward_gelu_tanh(const Tensor& x) const;  ///< gelu_tanh of that, in one pass
  void fields(Fields& f) override;
  Linear clone();

  Parameter weight, bias;  ///< [out, in] and [out]; no bias: undefined
};

/// Rows of a table [count, width], N(0, deviation²) at the start.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, double deviation = 0.02);
  Tensor forward(const Tensor& ids) const;  ///< ids [...] in [0, count) → [..., width]
  void fields(Fields& f) override;
  Embedding clone();

  Parameter weight;
};

/// LayerNorm, or RMSNorm, which leaves out mean and bias.
enum class NormKind { layer, rms };
NormKind norm_kind_of(const std::string& name);  ///< layer or rms; others are an error that lists them

/// LayerNorm or RMSNorm over the last axis, with a gain (and a bias for LayerNorm).
class Norm : public Module {
 public:
  explicit Norm(int64_t width, NormKind kind = NormKind::layer, double eps = 1e-5);
  Tensor forward(const Tensor& x) const;                           ///< x [..., width], of the same shape
  AddNorm forward(const Tensor& x, const Tensor& residual) const;  ///< x + residual, and its norm
  void fields(Fields& f) override;
  Norm clone();

  Parameter weight, bias;

 private:
  NormKind kind_;
  double eps_;
};

/// Dropout (ops/dropout.h) that acts in training mode only, with the thread's generator. p in [0, 1), else an error.
class Dropout : public Module {
 public:
  explicit Dropout(double p);
  Tensor forward(const Tensor& x) const;
  void fields(Fields&) override {}
  Dropout clone();

 private:
  double p_;
};

/// Functions of ops/activation.h.
enum class Activation { relu, gelu, gelu_tanh, silu, swiglu };
/// "gelu_tanh" and so on; an unknown name is an error that lists the known ones.
Activation activation_of(const std::string& name);

/// W₂·act(W₁·x + b₁) + b₂. For SwiGLU W₁ has twice the rows: gate, then value. Vaswani et al. 2017; Shazeer 2020.
class FeedForward : public Module {
 public:
  FeedForward(int64_t width, int64_t hidden, Activation activation, Bias bias, double out_deviation);
  Tensor forward(const Tensor& x) const;  ///< x [..., width], of the same shape
  void fields(Fields& f) override;
  FeedForward clone();

  Linear up, down;

 private:
  Activation activation_;
};

}  // namespace vitrine::nn
