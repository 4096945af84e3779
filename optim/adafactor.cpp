#include "optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "optim/kernels_adafactor.h"

namespace vitrine::optim {
namespace {

Shape without(Shape shape, int64_t axis) {
  shape[axis < 0 ? shape.rank() + axis : axis] = 1;
  return shape;
}

}  // namespace

Adafactor::Adafactor(std::vector<Parameter> parameters, AdafactorOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adafactor", o.beta1, 0);
  check(o.clip > 0, "Adafactor: clip is {}, wanted more than 0", o.clip);
}

void Adafactor::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  const auto s = numbers(batch, [this](const GroupOptions& group, int64_t t) {
    const auto step = static_cast<double>(t);
    const double lr = options_.relative_step ? std::min(group.lr, 1 / std::sqrt(step)) : group.lr;
    return formulas::Adafactor{lr,
                               options_.beta1,
                               1 - std::pow(step, -0.8),
                               group.weight_decay,
                               options_.clip,
                               options_.scale_parameter};
  });
  std::vector<Tensor> rows = batch.slots("rows"), columns = batch.slots("columns"),
                      v = batch.slots("moment2"), m;
  if (options_.beta1 > 0) m = batch.slots("moment1");
  VITRINE_RUN(adafactor_step, batch.x, batch.partners, batch.g, batch.factor, rows, columns, v, m, s);
}

std::vector<Optimizer::StateSlot> Adafactor::slots(const Parameter& p) const {
  const Shape& shape = p.shape();
  std::vector<StateSlot> result;
  if (shape.rank() < 2) {
    result.push_back({"moment2", shape});
  } else {
    result = {{"rows", without(shape, -1)}, {"columns", without(shape, -2)}};
  }
  if (options_.beta1 > 0) result.push_back({"moment1", shape});
  return result;
}

}  // namespace vitrine::optim
