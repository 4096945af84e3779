#include "optim/clip.h"

#include <cmath>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "optim/gradients.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

Tensor norm_of(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> packed;
  for (const Tensor& g : gradients) packed.push_back(g.is_contiguous() ? g : copy_as(g, g.dtype()));
  Tensor total = empty({}, DType::float64, packed.empty() ? Device::cpu : packed[0].device());
  VITRINE_RUN(sum_of_squares, total, packed);
  return sqrt(total);
}

}  // namespace

double gradient_norm(const std::vector<Parameter>& parameters) {
  const Tape::Pause pause;
  return norm_of(separate_gradients(parameters)).item();
}

namespace {

/// The norm of gradients, after the checks of its size.
Tensor checked_norm(const std::vector<Tensor>& gradients, double max_norm) {
  check(max_norm > 0, "clip_gradients: the largest norm is {}, wanted more than 0", max_norm);
  const Tensor norm = norm_of(gradients);
  if (!detail::capturing()) {  // in a capture the error is reported when the step is done
    const double total = norm.item();
    check(std::isfinite(total), "clip_gradients: the norm of the gradients is {}", total);
  }
  return norm;
}

}  // namespace

ClipFactor clip_factor(const std::vector<Parameter>& parameters, double max_norm) {
  const Tape::Pause pause;
  const Tensor norm = checked_norm(separate_gradients(parameters), max_norm);
  Tensor factor = empty({}, DType::float64, norm.device());
  VITRINE_RUN(clip_factor, factor, norm, max_norm);
  return {norm, factor};
}

Tensor clip_gradients(const std::vector<Parameter>& parameters, double max_norm) {
  const Tape::Pause pause;
  std::vector<Tensor> g = separate_gradients(parameters);
  const Tensor norm = checked_norm(g, max_norm);
  const ZerosStay stay(parameters);
  VITRINE_RUN(clip_all, g, norm, max_norm);
  return norm;
}

}  // namespace vitrine::optim
