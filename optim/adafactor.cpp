#include "optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/kernels.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace vitrine::optim {
namespace {

/// √(mean of x²), a tensor [], so that no step waits for its value.
Tensor rms(const Tensor& x) { return sqrt(mean(square(x))); }

Shape without(Shape shape, int64_t axis) {
  shape[axis < 0 ? shape.rank() + axis : axis] = 1;
  return shape;
}

}  // namespace

Adafactor::Adafactor(std::vector<Parameter> parameters, AdafactorOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check_betas("Adafactor", o.beta1, 0);
  check(o.clip > 0, "Adafactor: clip is {}, wanted more than 0", o.clip);
}

Tensor Adafactor::direction(const Tensor& g, State& state, double beta2) const {
  const Tensor squares = square(g) + 1e-30;
  Tensor u;
  if (g.rank() < 2) {
    u = g * rsqrt(average(state["moment2"], squares, beta2));
  } else {
    const Tensor& rows = average(state["rows"], mean(squares, {-1}, KeepAxes::yes), beta2);
    const Tensor& columns = average(state["columns"], mean(squares, {-2}, KeepAxes::yes), beta2);
    u = g * rsqrt(rows / mean(rows, {-2}, KeepAxes::yes)) * rsqrt(columns);
  }
  return u / maximum(rms(u) / options_.clip, 1);
}

void Adafactor::update(Batch& batch, const GroupOptions& group, int64_t t) {
  const auto step = static_cast<double>(t);
  const double beta2 = 1 - std::pow(step, -0.8),
               rate = options_.relative_step ? std::min(group.lr, 1 / std::sqrt(step)) : group.lr;
  for (size_t i = 0; i < batch.x.size(); ++i) {
    Tensor& x = batch.x[i];
    State& state = *batch.states[i];
    const Tensor size =
        options_.scale_parameter ? rate * maximum(rms(x), 1e-3) : full({}, rate, x.dtype(), x.device());
    Tensor u = direction(batch.g[i], state, beta2) * size;
    if (options_.beta1 > 0) u = average(state["moment1"], u, options_.beta1);
    VITRINE_RUN(copy, x, x * (1 - size * group.weight_decay) - u);
  }
}

std::vector<Optimizer::Slot> Adafactor::slots(const Shape& shape) const {
  std::vector<Slot> result;
  if (shape.rank() < 2) {
    result.push_back({"moment2", shape});
  } else {
    result = {{"rows", without(shape, -1)}, {"columns", without(shape, -2)}};
  }
  if (options_.beta1 > 0) result.push_back({"moment1", shape});
  return result;
}

}  // namespace vitrine::optim
