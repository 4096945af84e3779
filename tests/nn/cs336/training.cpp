#include "core/creation.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "optim/schedule.h"
#include "tests/nn/cs336/adapters.h"

namespace vitrine::test::cs336 {

Results clipping(Case c) {
  std::vector<Parameter> parameters;
  const auto add = [&](const Tensor& g) { parameters.emplace_back(zeros_like(g)).master().set_grad(g); };
  if (c.has({"grad", "gradient", "input"})) add(c.given({"grad", "gradient", "input"}));
  for (int i = 0; c.tensors.has(fmt::format("grad:{}", i)); ++i) add(c.tensors.at(fmt::format("grad:{}", i)));
  check(!parameters.empty(), "the case has no gradient, wanted grad:0");
  optim::clip_gradients(parameters, c.number({"max_l2_norm", "max_norm"}));
  if (c.tensors.has("expected")) return {{"expected", parameters[0].grad()}};
  Results results;
  for (size_t i = 0; i < parameters.size(); ++i)
    results.push_back({fmt::format("expected:{}", i), parameters[i].grad()});
  return results;
}

namespace {

/// The gradient of a step: the given one, or that of CS336's regression, Σ(y − W·x)², with the
/// given targets or y = (x₀ + x₁, −x₂).
Tensor gradient_of_step(Case c, const Parameter& w, int64_t step) {
  if (c.has({"gradients", "grads"})) return select(c.given({"gradients", "grads"}), 0, step);
  const Tensor x = select(c.input(), 0, step);
  const auto at = [&](int64_t i) { return slice(x, -1, i, i + 1); };
  const Tensor y = c.has({"targets", "target"}) ? select(c.given({"targets", "target"}), 0, step)
                                                : concat({at(0) + at(1), -at(2)}, -1);
  Tape tape;
  const Tensor watched = tape.watch(w.master());
  return tape.gradient({sum(square(y - linear(x, watched)))}, {watched})[0];
}

}  // namespace

Results adamw(Case c) {
  optim::AdamOptions o;
  o.decay = optim::Decay::decoupled;
  o.lr = c.number({"lr", "learning_rate"}, 1e-3), o.weight_decay = c.number({"weight_decay"}, 0.01);
  o.eps = c.number({"eps"}, 1e-8);
  if (c.settings.has("betas")) {
    o.beta1 = c.settings.at("betas")[0], o.beta2 = c.settings.at("betas")[1];
  } else {
    o.beta1 = c.number({"beta1"}, o.beta1), o.beta2 = c.number({"beta2"}, o.beta2);
  }
  Parameter w(clone(c.weight("weight")));
  optim::Adam rule({w}, o);
  const Tensor rows = c.has({"gradients", "grads"}) ? c.given({"gradients", "grads"}) : c.input();
  const auto steps = static_cast<int64_t>(c.number({"steps"}, static_cast<double>(rows.size(0))));
  for (int64_t step = 0; step < steps; ++step) {
    w.master().set_grad(gradient_of_step(c, w, step));
    rule.step();
  }
  return {{"expected", w.master()}};
}

Results schedule(Case c) {
  const auto whole = [&](Cs336Case::Names names) { return static_cast<int64_t>(c.number(names)); };
  const auto rate = optim::warmup_cosine(
      c.number({"max_learning_rate", "max_lr"}), whole({"warmup_iters", "warmup"}),
      whole({"cosine_cycle_iters", "cosine_iters", "total"}), c.number({"min_learning_rate", "min_lr"}));
  const Tensor want = c.tensors.at("expected");
  const std::vector<double> steps =
      c.has({"input", "steps"}) ? c.given({"input", "steps"}).values() : std::vector<double>();
  std::vector<double> rates;
  for (int64_t i = 0; i < want.numel(); ++i)
    rates.push_back(rate(steps.empty() ? i : static_cast<int64_t>(steps.at(static_cast<size_t>(i)))));
  return {{"expected", tensor(rates, want.shape(), want.dtype())}};
}

}  // namespace vitrine::test::cs336
