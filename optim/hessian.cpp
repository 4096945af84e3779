#include "optim/hessian.h"

#include "core/creation.h"
#include "core/error.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/multinomial.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::optim {
namespace {

std::vector<Tensor> values_of(const std::vector<Parameter>& parameters) {
  std::vector<Tensor> values;
  for (const Parameter& p : parameters) values.push_back(p.value());
  return values;
}

/// −1 or 1, with equal probabilities.
Tensor random_signs(const Tensor& like, Generator& generator) {
  const Tensor uniform = rand(like.shape(), DType::float32, like.device(), 0, 1, generator);
  return where(less(uniform, full({}, 0.5, DType::float32, like.device())), full_like(like, 1), -1.0);
}

}  // namespace

std::vector<Tensor> hutchinson(const std::vector<Parameter>& parameters, const std::function<Tensor()>& loss,
                               Generator& generator) {
  const std::vector<Tensor> x = values_of(parameters);
  Tape tape{{.order = 2}};
  const Tensor y = loss();
  check(y.numel() == 1, "hutchinson: the loss is {}, wanted one element", describe(y));
  const std::vector<Tensor> g = tape.gradient(y, x, Keep::yes);
  std::vector<Tensor> estimates;
  Tensor product = zeros({}, y.dtype(), y.device());  // Σ g·u, whose gradient is Hu
  for (const Tensor& gradient : g) {
    estimates.push_back(random_signs(gradient, generator));
    product = product + sum(gradient * estimates.back());
  }
  const std::vector<Tensor> hu = tape.gradient(product, x);
  for (size_t i = 0; i < x.size(); ++i) estimates[i] = estimates[i] * hu[i];
  return estimates;
}

std::vector<Tensor> gauss_newton_bartlett(const std::vector<Parameter>& parameters,
                                          const std::function<Tensor()>& logits, Generator& generator) {
  Tape tape;
  const Tensor z = logits();
  check(z.rank() >= 1 && z.numel() > 0, "gauss_newton_bartlett: the logits are {}, wanted [.., V]",
        describe(z));
  const Tensor rows = reshape(z, {-1, z.size(-1)});
  const Tensor labels = reshape(multinomial(softmax(detach(rows)), 1, true, generator), {rows.size(0)});
  std::vector<Tensor> estimates = tape.gradient(cross_entropy(rows, labels), values_of(parameters));
  for (Tensor& g : estimates) g = square(g) * static_cast<double>(rows.size(0));
  return estimates;
}

}  // namespace vitrine::optim
