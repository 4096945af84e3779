#include "optim/clip.h"

#include <cmath>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/gradients.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

Tensor root_of_squares(const std::vector<Tensor>& packed) {
  Tensor total = empty({}, DType::float64, packed.empty() ? Device::cpu : packed[0].device());
  VITRINE_RUN(sum_of_squares, total, packed);
  return sqrt(total);
}

Tensor norm_of(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> packed;
  bool wide = false;
  for (const Tensor& g : gradients) {
    packed.push_back(g.is_contiguous() ? g : copy_as(g, g.dtype()));
    wide = wide || g.dtype() == DType::float64;
  }
  const Tensor total = root_of_squares(packed);
  if (!wide || detail::capturing()) return total;
  // Squares in float64 hold those of every narrower number, but not of every float64.
  if (const double value = total.item(); value > 1e-140 && value < 1e150) return total;
  double largest = 0;
  for (const Tensor& g : packed)
    if (g.numel() > 0) largest = std::fmax(largest, max(abs(g)).item());
  if (!(largest > 0) || !std::isfinite(largest)) return total;
  for (Tensor& g : packed) g = cast(g, DType::float64) / largest;
  return root_of_squares(packed) * largest;
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
