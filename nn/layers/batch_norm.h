// Batch normalization: each channel is normalized over the batch.
#pragma once

#include "nn/module.h"
#include "ops/view.h"

namespace vitrine::nn {

struct BatchNormOptions {
  double momentum = 0.1;  ///< the weight of a batch in the running statistics, [0, 1]
  double eps = 1e-5;      ///< inside the root
  int64_t axis = 1;       ///< the axis of the channels: 1 in [N, C, ...], −1 in [B, T, C]
};

/// y = (x − mean)/√(var + eps)·weight + bias, per channel. In training mean and var are those of
/// the batch, over all other axes, with the biased variance. running_mean and running_var become
/// (1 − momentum)·running + momentum·batch, with the unbiased variance. In evaluation they take the
/// place of the statistics of the batch. All statistics are computed in the wide dtype.
/// Errors: another number of channels, and a training batch with one value per channel. Ioffe and
/// Szegedy 2015.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, BatchNormOptions options = {});
  Tensor forward(const Tensor& x) const;  ///< the same shape and dtype
  void fields(Fields& f) override;
  BatchNorm clone();

  Parameter weight, bias;            ///< [C], at first 1 and 0
  Tensor running_mean, running_var;  ///< buffers [C], at first 0 and 1

 private:
  /// Adds the statistics of x over the axes `others` to the running ones.
  void update(const Tensor& x, const Axes& others) const;

  BatchNormOptions options_;
};

}  // namespace vitrine::nn
