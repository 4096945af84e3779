#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

Parameter parameter(uint64_t seed, DType dtype = DType::float32) {
  Generator generator(seed);
  Parameter p(randn({300, 77}, DType::float32, Device::cpu, 0, 1, generator));
  p.to(dtype);
  return p;
}

void descend(Optimizer& optimizer, const Parameter& p, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    Tape tape;
    tape.backward(sum(square(p.value() - 1)));
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("every optimizer lowers a loss") {
  for (int kind = 0; kind < 6; ++kind) {
    Parameter p = parameter(1);
    const double before = sum(square(p.value() - 1)).item();
    std::unique_ptr<Optimizer> o;
    if (kind == 0) o = std::make_unique<Sgd>(std::vector{p}, SgdOptions{.lr = 1e-2, .momentum = 0.5});
    if (kind == 1) o = std::make_unique<Adam>(std::vector{p});
    if (kind == 2) o = std::make_unique<NAdam>(std::vector{p});
    if (kind == 3) o = std::make_unique<RAdam>(std::vector{p});
    if (kind == 4) o = std::make_unique<Lamb>(std::vector{p});
    if (kind == 5) o = std::make_unique<Lion>(std::vector{p});
    descend(*o, p, 10);
    CHECK(sum(square(p.value() - 1)).item() < before);
  }
}

TEST_CASE("steps have the same bits on any number of threads") {
  const int before = threads();
  std::vector<std::vector<double>> results;
  for (int count : {1, 2, 3, 7}) {
    set_threads(count);
    Parameter p = parameter(2);
    Adam o({p});
    descend(o, p, 5);
    results.push_back(p.master().values());
  }
  set_threads(before);
  for (const auto& r : results) CHECK(r == results[0]);
}

TEST_CASE("a run that is resumed from its state equals one that ran through") {
  Parameter a = parameter(3), b = parameter(3);
  Adam through({a}), first({b});
  descend(through, a, 8);
  descend(first, b, 5);
  Adam second({b});
  second.load_state_dict(first.state_dict());
  descend(second, b, 3);
  CHECK(a.master().values() == b.master().values());
  CHECK(second.steps() == 8);
}

TEST_CASE("bfloat16 parameters move their float32 master and follow it") {
  Parameter p = parameter(4, DType::bfloat16);
  Adam o({p}, {.lr = 1e-4});
  const auto before = p.master().values();
  descend(o, p, 3);
  CHECK(p.master().dtype() == DType::float32);
  CHECK(p.grad().dtype() == DType::float32);
  CHECK(p.master().values() != before);
  CHECK(p.value().values() == copy_as(p.master(), DType::bfloat16).values());
}

TEST_CASE("a step after a failed backward is refused until the gradients are cleared") {
  Parameter p = parameter(5);
  p.set_name("weights");
  Adam o({p});
  {
    Tape tape;
    const Tensor y = square(p.value());
    tape.on_gradient(y, [](const Tensor&) -> Tensor { throw Error("planted"); });
    const Tensor loss = sum(y) + sum(p.value());
    CHECK_THROWS_WITH_AS(tape.backward(loss), doctest::Contains("planted"), Error);
  }
  CHECK_THROWS_WITH_AS(o.step(), doctest::Contains("the gradient of weights is incomplete"), Error);
  o.zero_grad();
  CHECK_NOTHROW(o.step());
}

TEST_CASE("bad settings and states are refused with a reason") {
  Parameter p = parameter(6);
  CHECK_THROWS_WITH_AS(Adam({p}, {.lr = -1}), doctest::Contains("must not be negative"), Error);
  CHECK_THROWS_WITH_AS(Adam({p}, {.beta1 = 1}), doctest::Contains("wanted [0, 1)"), Error);
  CHECK_THROWS_WITH_AS(Sgd({p}, {.nesterov = true}), doctest::Contains("Nesterov wants a momentum"), Error);
  CHECK_THROWS_WITH_AS(Adam({}), doctest::Contains("without parameters"), Error);
  Adam o({p});
  CHECK_THROWS_WITH_AS(o.add_group({{p}, {}}), doctest::Contains("is in two groups"), Error);
  CHECK_THROWS_WITH_AS(o.load_state_dict({}), doctest::Contains("no entry"), Error);
}
