// One step of an optimizer from a given state. Inputs are the rate, the number of steps so far, and
// then all parameters, all gradients and all values of each state. Outputs are the new parameters
// and states in the same order.
#include <cmath>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "optim/optimizers.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

using namespace optim;

double rate(Case c) { return c.in(0).item(); }
int64_t steps_done(Case c) { return static_cast<int64_t>(c.in(1).item()); }

/// Runs a step of `make(parameters)`, which has states with these names; `before` is the number of
/// earlier steps.
Outputs step(Case c, const std::vector<std::string>& states, int64_t before,
             const std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>)>& make) {
  const size_t count = (c.slots - 2) / (2 + states.size());
  const auto input = [&](size_t kind, size_t i) {
    const Tensor x = c.in(2 + kind * count + i);
    return copy_as(x, x.dtype());
  };
  std::map<std::string, Tensor> state = {{"step", tensor({static_cast<double>(before)}, DType::int64)}};
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < count; ++i) {
    parameters.emplace_back(input(0, i));
    parameters.back().master().set_grad(input(1, i));
    for (size_t s = 0; s < states.size(); ++s) state[std::to_string(i) + "/" + states[s]] = input(2 + s, i);
  }
  const auto optimizer = make(parameters);
  optimizer->load_state_dict(state);
  optimizer->step();
  state = optimizer->state_dict();
  Outputs result;
  for (const Parameter& p : parameters) result.push_back(p.master());
  for (const std::string& name : states)
    for (size_t i = 0; i < count; ++i) result.push_back(state.at(std::to_string(i) + "/" + name));
  return result;
}

/// ONNX adds epsilon to √v before the bias correction of v, whereas Vitrine adds it after. ONNX
/// also corrects from the first step on.
Outputs adam(Case c) {
  AdamOptions o;
  const auto t = static_cast<double>(steps_done(c));
  o.lr = rate(c), o.beta1 = c.attribute("alpha", 0.9), o.beta2 = c.attribute("beta", 0.999);
  o.weight_decay = c.attribute("norm_coefficient", 0.0);
  o.bias_correction = t > 0;
  o.eps = c.attribute("epsilon", 1e-6) / (t > 0 ? std::sqrt(1 - std::pow(o.beta2, t)) : 1);
  const double kept = 1 - c.attribute("norm_coefficient_post", 0.0);
  Outputs result = step(c, {"moment1", "moment2"}, std::max<int64_t>(0, steps_done(c) - 1),
                        [&](const auto& parameters) { return std::make_unique<Adam>(parameters, o); });
  for (size_t i = 0; i < result.size() / 3; ++i) result[i] = result[i] * kept;
  return result;
}

Outputs adagrad(Case c) {
  AdagradOptions o;
  o.lr = rate(c), o.eps = c.attribute("epsilon", 1e-6), o.lr_decay = c.attribute("decay_factor", 0.0);
  o.weight_decay = c.attribute("norm_coefficient", 0.0);
  return step(c, {"moment2"}, steps_done(c),
              [&](const auto& parameters) { return std::make_unique<Adagrad>(parameters, o); });
}

Outputs momentum(Case c) {
  SgdOptions o;
  o.lr = rate(c), o.momentum = c.attribute("alpha", 0.0);
  const double beta = c.attribute("beta", 1.0);
  o.dampening = steps_done(c) > 0 ? 1 - beta : 0;
  o.weight_decay = c.attribute("norm_coefficient", 0.0);
  o.nesterov = c.attribute<std::string>("mode", "standard") == "nesterov";
  return step(c, {"momentum"}, steps_done(c),
              [&](const auto& parameters) { return std::make_unique<Sgd>(parameters, o); });
}

}  // namespace

const OnnxAdapters kOptimizerAdapters = {{"Adagrad", adagrad}, {"Adam", adam}, {"Momentum", momentum}};

}  // namespace vitrine::test
