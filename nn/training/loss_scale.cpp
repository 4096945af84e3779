#include "nn/training/loss_scale.h"

#include <cmath>

#include "core/tape.h"
#include "optim/clip.h"
#include "optim/gradients.h"
#include "optim/kernels.h"

namespace vitrine::nn::training {
namespace {

constexpr int64_t kStepsUntilDoubled = 2000;

}  // namespace

bool LossScale::is_possible(double value, int64_t steps) const {
  if (!active_) return value == 1 && steps == 0;
  int exponent = 0;
  return value >= 1 && std::frexp(value, &exponent) == 0.5 && steps >= 0 && steps < kStepsUntilDoubled;
}

const char* LossScale::possible() const {
  return active_ ? "a power of 2 and 0 to 1999 steps" : "1 0, as only float16 scales its losses";
}

bool LossScale::unscale(const std::vector<Parameter>& parameters) {
  if (!active_) return true;
  if (!std::isfinite(optim::gradient_norm(parameters))) {
    check(value_ > 1, "training: the gradients are not finite, whatever the scale of the loss");
    value_ /= 2, steps_ = 0;
    return false;
  }
  std::vector<Tensor> gradients = optim::separate_gradients(parameters);
  const Tape::Pause pause;
  namespace cpu = optim::cpu;  // the kernel is in this namespace
  namespace cuda = optim::cuda;
  const optim::ZerosStay stay(parameters);
  VITRINE_RUN(scale_all, gradients, 1 / value_);
  if (++steps_ == kStepsUntilDoubled) value_ *= 2, steps_ = 0;
  return true;
}

}  // namespace vitrine::nn::training
