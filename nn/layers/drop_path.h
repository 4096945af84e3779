// Stochastic depth: whole rows of the output of a layer are dropped.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// x·keep/(1 − rate), where keep [B] (bool) holds for a whole row of x [B, ...]. Huang et al. 2016.
Tensor drop_path(const Tensor& x, const Tensor& keep, double rate);

/// In training each row of x is kept with probability 1 − rate, drawn from the generator of the
/// thread. In evaluation, and for rate 0, x itself. rate is in [0, 1); other values are an error.
class DropPath : public Module {
 public:
  explicit DropPath(double rate);
  Tensor forward(const Tensor& x) const;
  void fields(Fields&) override {}
  DropPath clone();

 private:
  double rate_;
};

}  // namespace vitrine::nn
