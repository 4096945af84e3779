// Group normalization: the channels of one example are normalized in groups.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// x [N, C, ...] → the same shape. The channels form `groups` groups of neighbours. Each group of
/// each example is normalized over its channels and all further axes, with the biased variance and
/// eps inside the root; then weight and bias per channel follow. One group is a layer norm of the
/// whole example, C groups are an instance norm. Errors: a number of groups that does not divide C;
/// another number of channels. Wu and He 2018.
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  Tensor forward(const Tensor& x) const;
  void fields(Fields& f) override;
  GroupNorm clone();

  Parameter weight, bias;  ///< [C], at first 1 and 0

 private:
  int64_t groups_;
  double eps_;
};

}  // namespace vitrine::nn
