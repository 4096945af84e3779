#include "nn/training/loss_scale.h"

#include <cmath>

#include "core/tape.h"
#include "optim/clip.h"
#include "optim/gradients.h"
#include "optim/kernels.h"

namespace vitrine::nn::training {

bool LossScale::unscale(const std::vector<Parameter>& parameters) {
  if (!active_) return true;
  if (!std::isfinite(optim::gradient_norm(parameters))) {
    check(value_ > 1, "training: the gradients are not finite, whatever the scale of the loss");
    value_ /= 2, steps_ = 0;
    return false;
  }
  std::vector<Tensor> gradients = optim::separate_gradients(parameters);
  const Tape::Pause pause;
  namespace cpu = optim::cpu;  // whose kernel it is
  namespace cuda = optim::cuda;
  VITRINE_RUN(scale_all, gradients, 1 / value_);
  if (++steps_ == 2000) value_ *= 2, steps_ = 0;
  return true;
}

}  // namespace vitrine::nn::training
