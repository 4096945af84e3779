// Groups of parameters with their own settings, and several parameters in one group.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "optim/optimizers.h"
#include "tests/ops/reference.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

/// A matrix of several chunks and a vector that fills no vector register.
std::vector<Parameter> two_random() {
  return {Parameter(test::normal({300, 77}, 1, DType::float32)),
          Parameter(test::normal({5}, 2, DType::float32))};
}

/// Three steps of these optimizers. The gradients of p depend only on its size and on the step.
void step(const std::vector<Optimizer*>& optimizers, const std::vector<Parameter>& parameters) {
  for (uint64_t t = 0; t < 3; ++t) {
    for (const Parameter& p : parameters)
      p.master().set_grad(
          test::normal(p.shape(), 10 * t + static_cast<uint64_t>(p.shape().rank()), DType::float32));
    for (Optimizer* o : optimizers) o->step();
  }
}

std::vector<double> values(const Parameter& p) { return p.master().values(); }

}  // namespace

TEST_CASE("parameters of one group take the steps that they take alone, bit for bit") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const auto together = two_random(), apart = two_random();
    step({rule.second(together).get()}, together);
    const auto first = rule.second({apart[0]}), second = rule.second({apart[1]});
    step({first.get(), second.get()}, apart);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(values(together[i]) == values(apart[i]));
      CHECK(values(together[i]) != values(two_random()[i]));
    }
  }
}

TEST_CASE("each group has a rate and a decay of its own") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const GroupOptions options[] = {{2e-3, 0}, {5e-3, 0.3}};
    const auto grouped = two_random(), apart = two_random(), swapped = two_random();
    const auto run = [&](const std::vector<Parameter>& p, size_t of_first) {
      const auto o = rule.second({p[0]});
      o->groups()[0].options = options[of_first];
      o->add_group({{p[1]}, options[1 - of_first]});
      step({o.get()}, p);
    };
    run(grouped, 0);
    run(swapped, 1);
    const auto first = rule.second({apart[0]}), second = rule.second({apart[1]});
    first->groups()[0].options = options[0], second->groups()[0].options = options[1];
    step({first.get(), second.get()}, apart);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(values(grouped[i]) == values(apart[i]));
      CHECK(values(grouped[i]) != values(swapped[i]));
    }
  }
}

TEST_CASE("a factor scales the rate of each group, and leaves the rates as they are") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const auto scaled = two_random(), direct = two_random();
    const auto run = [&](const std::vector<Parameter>& p, double factor) {
      const auto o = rule.second({p[0]});
      o->add_group({{p[1]}, {}});
      const double lr[] = {8e-3, 2e-3};
      for (size_t i = 0; i < 2; ++i) o->groups()[i].options = {lr[i] / factor, 0.1};
      o->set_lr_factor(factor);
      step({o.get()}, p);
      CHECK(o->groups()[1].options.lr == lr[1] / factor);
    };
    run(scaled, 0.5);
    run(direct, 1);
    for (size_t i = 0; i < 2; ++i) CHECK(values(scaled[i]) == values(direct[i]));
  }
  Parameter p(zeros({1}));
  Sgd o({p});
  CHECK_THROWS_WITH_AS(o.set_lr_factor(-1), doctest::Contains("factor of the learning rates is -1"), Error);
}

TEST_CASE("where gradients are 0 only the group that decays moves, towards 0") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const auto p = two_random();
    const auto o = rule.second({p[0]});
    o->groups()[0].options = {1e-2, 0.5};
    o->add_group({{p[1]}, {1e-2, 0}});
    for (const Parameter& x : p) x.master().set_grad(zeros(x.shape()));
    o->step();
    const auto before = two_random();
    CHECK(values(p[1]) == values(before[1]));
    const auto decayed = values(p[0]), x = values(before[0]);
    for (size_t i = 0; i < x.size(); i += 1000) CHECK((x[i] - decayed[i]) * x[i] > 0);
  }
}

TEST_CASE("at a rate of 0 every rule stands still, its decay too") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const auto p = two_random();
    const auto o = rule.second(p);
    o->groups()[0].options.weight_decay = 0.1;
    o->set_lr(0);
    step({o.get()}, p);
    for (size_t i = 0; i < 2; ++i) CHECK(values(p[i]) == values(two_random()[i]));
  }
}

TEST_CASE("Adam without bias correction takes m and v as they are") {
  const double b1 = 0.9, b2 = 0.99, lr = 0.1, eps = 1e-3;
  Parameter p(tensor({1, -2}, {2}, DType::float64));
  Adam o({p}, {.lr = lr, .beta1 = b1, .beta2 = b2, .eps = eps, .bias_correction = false});
  double x[] = {1, -2}, m[] = {0, 0}, v[] = {0, 0};
  for (int t = 1; t <= 4; ++t) {
    const std::vector<double> g = {0.5 * t, 3.0 / t};
    p.master().set_grad(tensor(g, {2}, DType::float64));
    o.step();
    for (size_t i = 0; i < 2; ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
      x[i] -= lr * m[i] / (std::sqrt(v[i]) + eps);
      CHECK(values(p)[i] == doctest::Approx(x[i]).epsilon(1e-14));
    }
  }
}
