#include "nn/layers/dropout.h"

#include "ops/dropout.h"

namespace vitrine::nn {

Dropout::Dropout(double p) : p_(p) {
  check(p >= 0 && p < 1, "Dropout: the probability is {}, wanted [0, 1)", p);
}
Tensor Dropout::forward(const Tensor& x) const { return training() && p_ > 0 ? dropout(x, p_) : x; }
Dropout Dropout::clone() {
  return clone_into([this] { return Dropout(p_); });
}

}  // namespace vitrine::nn
