// Loss scaling, without which float16 loses the gradients that are smaller than its smallest
// number.
#pragma once

#include <vector>

#include "core/parameter.h"

namespace vitrine::nn::training {

/// The factor by which a loss is multiplied before its backward, and the gradients divided after
/// it: in float16 what is below 6e-8 would be 0. Halved where a gradient overflows, doubled after
/// 2000 steps without; for other dtypes 1, as their exponents are float32's. Micikevicius et al.,
/// Mixed precision training, 2018, section 3.2.
class LossScale {
 public:
  explicit LossScale(DType dtype) : active_(dtype == DType::float16), value_(active_ ? 65536 : 1) {}
  double value() const { return value_; }   ///< a power of 2
  int64_t steps() const { return steps_; }  ///< since it last changed
  /// Whether a run of this dtype can have come to this value() and these steps().
  bool is_possible(double value, int64_t steps) const;
  const char* possible() const;  ///< what is_possible() accepts, in words
  /// Continues from a saved value() and steps(), which are possible.
  void restore(double value, int64_t steps) { value_ = value, steps_ = steps; }
  /// Divides the gradients by value(). False if one is not finite: then this step has to be left
  /// out, and the next has a smaller scale. Gradients that stay so down to a scale of 1 are an
  /// error.
  bool unscale(const std::vector<Parameter>& parameters);

 private:
  bool active_;
  double value_;
  int64_t steps_ = 0;
};

}  // namespace vitrine::nn::training
