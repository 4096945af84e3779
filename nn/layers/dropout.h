// Dropout as a layer.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Dropout (ops/dropout.h) that acts in training mode only, with the thread's generator. p in [0,
/// 1), else an error.
class Dropout : public Module {
 public:
  explicit Dropout(double p);
  Tensor forward(const Tensor& x) const;
  void fields(Fields&) override {}
  Dropout clone();

 private:
  double p_;
};

}  // namespace vitrine::nn
