// Convolutions as layers.
#pragma once

#include "nn/layers/linear.h"
#include "nn/module.h"
#include "ops/convolution.h"

namespace vitrine::nn {

/// conv1d with weights of its own: x [N, in, T] → [N, out, T']. Weights and bias start as U(−a, a),
/// a = 1/√(weights of an output), so that y has about a third of x's variance (LeCun et al. 1998).
class Conv1d : public Module {
 public:
  Conv1d(int64_t in, int64_t out, int64_t kernel, const Conv1dOptions& options = {}, Bias bias = Bias::yes);
  Tensor forward(const Tensor& x) const;
  void fields(Fields& f) override;
  Conv1d clone();

  Parameter weight, bias;  ///< [out, in/groups, K] and [out]; undefined without bias

 private:
  Conv1dOptions options_;
};

/// conv2d with weights of its own: x [N, in, H, W] → [N, out, H', W']. Starts as Conv1d does.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, PerAxis<int64_t> kernel, const Conv2dOptions& options = {},
         Bias bias = Bias::yes);
  Tensor forward(const Tensor& x) const;
  void fields(Fields& f) override;
  Conv2d clone();

  Parameter weight, bias;  ///< [out, in/groups, Kh, Kw] and [out]; undefined without bias

 private:
  Conv2dOptions options_;
};

/// causal_conv1d with weights of its own: x [B, T, C] → [B, T, C], one kernel per channel. Starts
/// as Conv1d does.
class CausalConv1d : public Module {
 public:
  CausalConv1d(int64_t channels, int64_t kernel, Bias bias = Bias::yes);
  Tensor forward(const Tensor& x) const;
  /// The same for x that continues earlier positions. `state` [B, K − 1, C] are the inputs before
  /// x; undefined before the first position. Afterwards it is the state after x. A state has no
  /// gradient: a recording tape is an error.
  Tensor forward(const Tensor& x, Tensor& state) const;
  void fields(Fields& f) override;
  CausalConv1d clone();

  Parameter weight, bias;  ///< [C, K] and [C]; undefined without bias
};

}  // namespace vitrine::nn
