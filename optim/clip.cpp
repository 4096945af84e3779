#include "optim/clip.h"

#include <cmath>

#include "core/creation.h"
#include "core/tape.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

std::vector<Tensor> gradients(const std::vector<Parameter>& parameters) {
  std::vector<Tensor> result;
  for (const Parameter& p : parameters)
    if (p.grad().defined()) result.push_back(p.grad());
  return result;
}

double norm_of(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> packed;
  for (const Tensor& g : gradients) packed.push_back(g.is_contiguous() ? g : copy_as(g, g.dtype()));
  Tensor total = empty({1}, DType::float64, packed.empty() ? Device::cpu : packed[0].device());
  VITRINE_RUN(sum_of_squares, total, packed);
  return std::sqrt(total.item());
}

}  // namespace

double gradient_norm(const std::vector<Parameter>& parameters) {
  const Tape::Pause pause;
  return norm_of(gradients(parameters));
}

double clip_gradients(const std::vector<Parameter>& parameters, double max_norm) {
  check(max_norm > 0, "clip_gradients: the largest norm is {}, wanted more than 0", max_norm);
  const Tape::Pause pause;
  std::vector<Tensor> g = gradients(parameters);
  const double norm = norm_of(g), factor = max_norm / (norm + 1e-6);
  check(std::isfinite(norm), "clip_gradients: the norm of the gradients is {}", norm);
  if (factor < 1) VITRINE_RUN(scale_all, g, factor);
  return norm;
}

}  // namespace vitrine::optim
