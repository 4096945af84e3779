#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

Parameter named(const std::string& name, std::initializer_list<double> values) {
  Parameter p(tensor(values));
  p.set_name(name);
  return p;
}

}  // namespace

TEST_CASE(
    "the states of every rule have names, can be read before the first step, and reading changes nothing") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    Parameter p = named("p", {1, 2}), q = named("q", {1, 2});
    const auto read = rule.second({p}), untouched = rule.second({q});
    for (const std::string& name : read->state_names(p)) {
      const bool is_point = name == "base" || name == "average";  // which begin with the parameter
      CHECK(read->state(p, name).values() == (is_point ? p.master().values() : std::vector<double>(2, 0)));
    }
    CHECK(read->state_dict().size() == 1);
    for (uint64_t t = 0; t < 2; ++t) {
      test::set_gradient(p, t), test::set_gradient(q, t);
      read->step(), untouched->step();
    }
    CHECK(p.master().values() == q.master().values());
    const auto state = read->state_dict();
    CHECK(state.size() == 2 + read->state_names(p).size());
    for (const std::string& name : read->state_names(p))
      CHECK(read->state(p, name).values() == state.at("p/" + name).values());
  }
}

TEST_CASE("a state that is set before the first step is what that step begins with, also from a checkpoint") {
  for (const bool reloaded : {false, true}) {
    INFO(reloaded);
    Parameter p = named("p", {1, 2});
    Sgd sgd({p}, {.lr = 1, .momentum = 0.5, .dampening = 0.5}),
        other({p}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
    sgd.set_state(p, "momentum", tensor({4, 8}));
    CHECK(sgd.steps(p) == 0);
    other.load_state_dict(sgd.state_dict());
    p.master().set_grad(tensor({2, 2}));
    (reloaded ? other : sgd).step();
    CHECK(p.master().values() == std::vector<double>{1 - 3, 2 - 5});
  }
}

TEST_CASE("Adagrad's sum begins with the initial accumulator, or with the state that is set") {
  Parameter p = named("p", {0}), q = named("q", {0});
  Adagrad from_option({p}, {.lr = 1, .initial_accumulator = 9}), set({q}, {.lr = 1});
  CHECK(from_option.state(p, "moment2").values() == std::vector<double>{9});
  set.set_state(q, "moment2", tensor({9}));
  p.master().set_grad(tensor({4})), q.master().set_grad(tensor({4}));
  from_option.step(), set.step();
  CHECK(p.master().item() == doctest::Approx(-4.0 / 5));
  CHECK(q.master().item() == p.master().item());
  set.set_state(q, "moment2", tensor({0}, DType::float64));
  CHECK(set.state(q, "moment2").dtype() == DType::float32);
  CHECK(set.state_dict().at("q/moment2").item() == 0);
}

TEST_CASE("the count of each parameter is in the checkpoint; without counts all have the optimizer's") {
  Parameter a = named("a", {1, 2}), late = named("late", {1, 2}), never = named("never", {1});
  Adam o({a, late, never});
  for (uint64_t t = 0; t < 5; ++t) {
    test::set_gradient(a, t);
    if (t >= 3) test::set_gradient(late, t);
    o.step();
  }
  CHECK(o.steps() == 5);
  CHECK(o.steps(a) == 5);
  CHECK(o.steps(late) == 2);
  CHECK(o.steps(never) == 0);
  auto state = o.state_dict();
  CHECK(state.at("late/step").item() == 2);
  Adam resumed({a, late, never});
  resumed.load_state_dict(state);
  CHECK(resumed.steps(late) == 2);
  CHECK(resumed.steps(never) == 0);
  state.erase("late/step");
  CHECK_THROWS_WITH_AS(resumed.load_state_dict(state), doctest::Contains("missing late/step"), Error);
  state.erase("a/step");
  resumed.load_state_dict(state);
  CHECK(resumed.steps(a) == 5);
  CHECK(resumed.steps(late) == 5);
  CHECK(resumed.steps(never) == 0);
  state["a/step"] = tensor({6}, DType::int64), state["late/step"] = tensor({1}, DType::int64);
  CHECK_THROWS_WITH_AS(
      resumed.load_state_dict(state),
      doctest::Contains("a/step is int64[1] on cpu, wanted one int64 of at least 0 and at most 5"), Error);
}

TEST_CASE("a parameter named as the beginning of another may never have had a gradient") {
  Parameter a = named("a", {1}), below = named("a/b", {2});
  Adam o({a, below});
  test::set_gradient(below, 0);
  o.step();
  Adam resumed({a, below});
  resumed.load_state_dict(o.state_dict());
  CHECK(resumed.steps(a) == 0);
  CHECK(resumed.steps(below) == 1);
}

TEST_CASE("a step in which no parameter has a gradient is an error, unless all are frozen") {
  Parameter p = named("weights", {1, 2});
  Adam o({p});
  CHECK_THROWS_WITH_AS(o.step(), doctest::Contains("step: no parameter has a gradient"), Error);
  CHECK_THROWS_WITH_AS(o.step(), doctest::Contains("Tape::explain(weights, loss)"), Error);
  CHECK(o.steps() == 0);
  p.requires_grad(false);
  CHECK_NOTHROW(o.step());
  CHECK(p.master().values() == std::vector<double>{1, 2});
}

TEST_CASE("NAdam takes a step of any number at once") {
  Parameter p = named("p", {1, 2});
  NAdam o({p});
  test::set_gradient(p, 0);
  o.step();
  auto state = o.state_dict();
  state["step"] = tensor({0x1p53}, DType::int64), state["p/step"] = tensor({0x1p52}, DType::int64);
  o.load_state_dict(state);
  o.step();
  CHECK(o.steps() == (int64_t{1} << 53) + 1);
  CHECK(std::isfinite(p.master().values()[0]));
}
