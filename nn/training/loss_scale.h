// Loss scaling, which keeps small gradients from becoming 0 in float16.
#pragma once

#include <vector>

#include "core/parameter.h"

namespace vitrine::nn::training {

/// The loss is multiplied by this factor before the backward pass, and the gradients are divided by
/// it afterwards, because float16 rounds values below 6e-8 to 0. The factor is halved if a gradient
/// overflows, and doubled after 2000 steps without overflow. For other dtypes it is 1: their
/// exponent range is at least that of float32. Micikevicius et al., Mixed precision training, 2018,
/// section 3.2.
class LossScale {
 public:
  explicit LossScale(DType dtype) : active_(dtype == DType::float16), value_(active_ ? 65536 : 1) {}
  double value() const { return value_; }   ///< a power of 2
  int64_t steps() const { return steps_; }  ///< since the last change
  /// Whether a run with this dtype can have this value() and steps().
  bool is_possible(double value, int64_t steps) const;
  const char* possible() const;  ///< the pairs that is_possible() accepts, in words
  /// Continues from a saved value() and steps(), which is_possible() accepts.
  void restore(double value, int64_t steps) { value_ = value, steps_ = steps; }
  /// Divides the gradients by value(). Returns false if a gradient is not finite: the caller must
  /// skip this step, and the next step has a smaller scale. Gradients that are not finite even at a
  /// scale of 1 are an error.
  bool unscale(const std::vector<Parameter>& parameters);

 private:
  bool active_;
  double value_;
  int64_t steps_ = 0;
};

}  // namespace vitrine::nn::training
