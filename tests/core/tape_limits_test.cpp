// Difficult cases of the tape: failed passes, derivatives beyond its order, hooks on leaves,
// threads, several outputs.
#include <doctest/doctest.h>

#include <thread>

#include "core/creation.h"
#include "core/parameter.h"
#include "core/profiler.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Values = std::vector<double>;

Tensor fail_in_hook(const Tensor&) { throw Error("planted"); }

/// sin and cos of x in one op.
std::vector<Tensor> sincos(const Tensor& x) {
  const auto definition = [&] { return std::vector<Tensor>{sin(x), cos(x)}; };
  if (const auto y = through_definition({x}, definition)) return *y;
  std::vector<Tensor> y;
  {
    const Tape::Pause pause;
    y = definition();
  }
  return record_all("sincos", {x}, y, [x = Saved(x)](const Backward& b) -> Grads {
    Tensor dx;
    if (b.dy(0).defined()) dx = b.dy(0) * cos(x.get());
    if (b.dy(1).defined()) dx = dx.defined() ? dx - b.dy(1) * sin(x.get()) : -b.dy(1) * sin(x.get());
    return {dx};
  });
}

}  // namespace

TEST_CASE("an incomplete gradient stays marked through a later pass that succeeds, until zero_grad") {
  const Tensor x = test::leaf({1, 2}), bystander = test::leaf({3});
  {
    Tape tape;
    const Tensor y = square(x);
    tape.on_gradient(y, fail_in_hook);
    CHECK_THROWS_WITH(tape.backward(sum(y) + sum(x)), doctest::Contains("planted"));
  }
  CHECK(x.leaf()->stale);
  Tape tape;
  tape.backward(sum(x) * sum(bystander));
  CHECK(x.leaf()->stale);
  CHECK(!bystander.leaf()->stale);
  x.zero_grad();
  CHECK(!x.leaf()->stale);
}

TEST_CASE("a leaf with a hook is marked too where the hook of the next one throws") {
  const Tensor a = test::leaf({1}), b = test::leaf({2});
  Tape tape;
  const Tensor first = sum(a), loss = first + sum(b);
  tape.on_gradient(a, [](const Tensor& g) { return g * 5; });
  tape.on_gradient(b, fail_in_hook);
  CHECK_THROWS_WITH(tape.backward(loss), doctest::Contains("planted"));
  CHECK(a.leaf()->stale == a.grad().defined());
  CHECK(a.grad().values() == Values{5});
  CHECK(!b.leaf()->stale);
}

TEST_CASE("a derivative beyond the tape's order is an error, not a zero; detached it is a constant") {
  const Tensor x = test::leaf({2});
  for (int order : {1, 2}) {
    CAPTURE(order);
    Tape tape({.order = order});
    Tensor y = sum(x * x * x);
    for (int i = 0; i < order; ++i) y = sum(tape.gradient(y, {x}, Keep::yes)[0]);
    CHECK_NOTHROW(tape.gradient(sum(detach(y) * x), {x}, Keep::yes));
    CHECK_THROWS_WITH(tape.gradient(y, {x}, Keep::yes),
                      doctest::Contains(fmt::format("use Tape({{.order = {}}})", order + 1).c_str()));
  }
}

TEST_CASE("a penalty on the gradient of an input wants a tape of order 2 for the parameters' gradients") {
  const Tensor w = test::leaf({3});
  const Tensor x = tensor({2}, DType::float64);
  {
    Tape tape;
    tape.watch(x);
    const Tensor g = tape.gradient(sum(w * x), {x}, Keep::yes)[0];
    CHECK_THROWS_WITH(tape.backward(sum(square(g))), doctest::Contains("was not recorded"));
  }
  Tape tape({.order = 2});
  tape.watch(x);
  tape.backward(sum(square(tape.gradient(sum(w * x), {x}, Keep::yes)[0])));
  CHECK(w.grad().values() == Values{6});  // of w²
}

TEST_CASE("an op with several outputs: undefined gradients for those unused, and its definition at order 2") {
  const Tensor x = test::leaf({0.3, -1});
  {
    Tape tape;
    const auto y = sincos(x);
    CHECK(tape.size() == 1);
    const auto both = tape.gradient({y[0], y[1]}, {x}, {ones_like(x), ones_like(x)}, Keep::yes)[0].values();
    const auto second = tape.gradient({y[1]}, {x}, {ones_like(x)})[0].values();
    for (size_t i = 0; i < 2; ++i) {
      const double v = x.values()[i];
      CHECK(both[i] == doctest::Approx(std::cos(v) - std::sin(v)).epsilon(1e-15));
      CHECK(second[i] == doctest::Approx(-std::sin(v)).epsilon(1e-15));
    }
  }
  Tape tape({.order = 2});
  const Tensor dx = tape.gradient({sincos(x)[1]}, {x}, {ones_like(x)}, Keep::yes)[0];
  const auto ddx = tape.gradient(sum(dx), {x})[0].values();
  CHECK(ddx[0] == doctest::Approx(-std::cos(0.3)).epsilon(1e-15));
}

TEST_CASE("a hook of a recorded pass may record many ops, which moves the nodes of the tape") {
  const Tensor x = test::leaf({2});
  Tape tape({.order = 2});
  const Tensor y = x * 3, z = y * y;
  for (const Tensor& hooked : {y, z})
    tape.on_gradient(hooked, [](const Tensor& g) {
      Tensor same = g;
      for (int i = 0; i < 1000; ++i) same = same * 1;
      return same;
    });
  const Tensor dx = tape.gradient(sum(z), {x})[0];
  CHECK(dx.values() == Values{36});
  CHECK(tape.gradient(sum(dx), {x})[0].values() == Values{18});
}

TEST_CASE("the output of an op that is made a parameter passes its gradient on") {
  const Tensor x = test::leaf({1});
  Tape tape;
  const Parameter p(x * 2);
  tape.backward(sum(square(p.value())));
  CHECK(x.grad().values() == Values{8});
}

TEST_CASE("loss.backward() is the running tape's") {
  const Tensor x = test::leaf({1, 2});
  CHECK_THROWS_WITH(x.backward(), doctest::Contains("no tape is recording on this thread"));
  Tape tape;
  sum(x * 3).backward();
  CHECK(x.grad().values() == Values{3, 3});
}

TEST_CASE("anomaly mode sees what a backward adds straight into a sum, and a listener is shown it") {
  Tensor w = ones({2, 2}), x = full({1, 2}, INFINITY);
  w.requires_grad();
  const auto run = [&](Tape& tape) { tape.backward(sum(linear(x, w)), Keep::no); };
  {
    Tape tape;
    std::vector<Tensor> dx;
    tape.on_step([&](const Tape::Step& s) {
      if (std::string(s.op) == "linear") dx.assign(s.dx.begin(), s.dx.end());
    });
    run(tape);
    REQUIRE(dx.size() >= 2);
    CHECK(!dx[0].defined());  // x is not wanted
    CHECK(dx[1].values() == Values(4, INFINITY));
    CHECK(w.grad().values() == Values(4, INFINITY));
  }
  w.zero_grad();
  x = full({1, 2}, 3e38);
  Tape tape({.anomaly = true});
  const Tensor y = linear(x, w * 1e-3);
  CHECK_THROWS_WITH(tape.backward(sum(y * 100)), doctest::Contains("gradient of linear"));
}

TEST_CASE("each thread has a tape of its own") {
  const Tensor x = tensor({1, 2, 3}, DType::float64);
  std::vector<Values> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        Tape tape;
        tape.watch(x);
        results[i] = tape.gradient(sum(exp(x) * static_cast<double>(i + 1)), {x})[0].values();
      }
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < results.size(); ++i)
    for (size_t k = 0; k < 3; ++k)
      CHECK(results[i][k] == doctest::Approx((double(i) + 1) * std::exp(double(k) + 1)).epsilon(1e-14));
}

TEST_CASE("the profiler tells memory by op and by module") {
  const Profiler profiler;
  {
    const ModuleScope scope("layer");
    exp(ones({1 << 16}));
  }
  const auto bytes = [](const std::vector<Profiler::Row>& rows, const std::string& name) {
    for (const auto& row : rows)
      if (row.name == name) return row.bytes;
    return size_t{0};
  };
  CHECK(bytes(profiler.by_op(), "exp") == 4 << 16);
  CHECK(bytes(profiler.by_module(), "layer") == 2 * (4 << 16));
}
