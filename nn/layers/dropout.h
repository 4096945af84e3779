// Dropout as a layer.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Dropout (ops/dropout.h), active in training mode only. It uses the generator of the thread. p is
/// in [0, 1); other values are an error.
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
