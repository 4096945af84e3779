// Values computed under Tape::Pause, and pauses and tapes that end in a wrong place.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <thread>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/parameter.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Values = std::vector<double>;

/// The data that the backward of the op below uses.
enum class Uses { paused_value, paused_view, paused_alias, paused_result, inputs, output, mask, detached };

/// y = x·sigmoid(x), computed under a pause and recorded without a definition.
Tensor swish(const Tensor& x, Uses uses) {
  Tensor y, s, positive;
  {
    const Tape::Pause pause;
    s = sigmoid(x);
    y = x * s;
    positive = greater(x, zeros_like(x));
    if (uses == Uses::paused_view) s = reshape(reshape(s, {-1, 1}), x.shape());
    if (uses == Uses::paused_alias) s = s.alias(s.shape(), s.strides());
    if (uses == Uses::detached) s = detach(s);
  }
  return record("swish", {x}, y, [=](const Tensor& dy) -> Grads {
    switch (uses) {
      case Uses::paused_result: return {s};
      case Uses::inputs: {
        const Tensor again = sigmoid(x);
        return {dy * (again + x * again * (1.0 - again))};
      }
      case Uses::output: return {dy * (y / x + y * (1.0 - y / x))};
      case Uses::mask: return {dy * cast(positive, dy.dtype())};
      default: return {dy * (s + x * s * (1.0 - s))};
    }
  });
}

double second_derivative(Uses uses) {
  const Tensor x = test::leaf({0.5});
  Tape tape({.order = 2});
  const Tensor g = tape.gradient(sum(swish(x, uses)), {x})[0];
  return tape.gradient(sum(g), {x})[0].item();
}

}  // namespace

TEST_CASE("at order 2 a backward that uses what a pause computed from a tracked tensor is an error") {
  for (const Uses uses : {Uses::paused_value, Uses::paused_view, Uses::paused_alias, Uses::paused_result})
    CHECK_THROWS_WITH(
        second_derivative(uses),
        doctest::Contains("backward of swish (op 0) failed: it uses float64[1] on cpu, computed by"));
}

TEST_CASE(
    "such a value is found also where a nested tape, a write in place or an op after the pause made it") {
  using Compute = Tensor (*)(const Tensor& x);
  const auto second_derivative_of = [](Compute sigmoid_of) {
    const Tensor x = test::leaf({0.5});
    Tape tape({.order = 2});
    Tensor y, s;
    {
      const Tape::Pause pause;
      s = sigmoid_of(x);
      y = x * s;
    }
    const Tensor z =
        record("swish", {x}, y, [=](const Tensor& dy) -> Grads { return {dy * (s + x * s * (1.0 - s))}; });
    return tape.gradient(sum(tape.gradient(sum(z), {x})[0]), {x})[0].item();
  };
  const Compute hidden[] = {[](const Tensor& x) {
                              const Tape nested;
                              return sigmoid(x);
                            },
                            [](const Tensor& x) {
                              Tape nested;
                              nested.watch(x);
                              return reshape(sigmoid(x), {1, 1});
                            },
                            [](const Tensor& x) {
                              Tape nested;
                              return nested.gradient(sum(log(exp(x) + 1.0)), {x})[0];
                            },
                            [](const Tensor& x) {
                              const Tape::Pause inner;
                              return sigmoid(x);
                            },
                            [](const Tensor& x) {
                              Tensor s = zeros_like(x);
                              add_in_place(s, sigmoid(x));
                              return s;
                            }};
  for (const Compute compute : hidden)
    CHECK_THROWS_WITH(second_derivative_of(compute),
                      doctest::Contains("backward of swish (op 0) failed: it uses"));
  // From a copy that is no longer tracked, it is a constant.
  CHECK_NOTHROW(second_derivative_of([](const Tensor& x) {
    const Tensor constant = detach(x);
    Tape nested;
    nested.watch(constant);
    return nested.gradient(sum(log(exp(constant) + 1.0)), {constant})[0];
  }));

  const Tensor x = test::leaf({0.5});
  Tape tape({.order = 2});
  Tensor half;
  {
    const Tape::Pause pause;
    half = x * 0.5;
  }
  const Tensor later = half + 1.0;  // not recorded, because the tape does not track `half`
  const Tensor z = record("half", {x}, clone(x), [=](const Tensor& dy) -> Grads { return {dy * later}; });
  CHECK_THROWS_WITH(tape.gradient(z, {x}),
                    doctest::Contains("failed: it uses float64[1] on cpu, computed by"));
}

TEST_CASE("inputs, outputs, masks and what is detached are no error there") {
  const double s = 1 / (1 + std::exp(-0.5)), right = s * (1 - s) * (2 + 0.5 * (1 - 2 * s));
  CHECK(second_derivative(Uses::inputs) == doctest::Approx(right).epsilon(1e-14));
  CHECK(second_derivative(Uses::output) == doctest::Approx(right).epsilon(1e-14));
  CHECK(second_derivative(Uses::mask) == 0);
  CHECK_NOTHROW(second_derivative(Uses::detached));
}

TEST_CASE("at order 1, and for the highest derivative of a tape, a backward may use what a pause computed") {
  const Tensor x = test::leaf({0.5});
  const double s = 1 / (1 + std::exp(-0.5)), right = s + 0.5 * s * (1 - s);
  {
    Tape tape;
    CHECK(tape.gradient(sum(swish(x, Uses::paused_value)), {x})[0].item() == doctest::Approx(right));
  }
  Tape tape({.order = 2});
  tape.backward(sum(swish(x, Uses::paused_value)));
  CHECK(x.grad().item() == doctest::Approx(right));
}

TEST_CASE("a check of second derivatives names the cause") {
  const GradientReport report = check_gradients([](const auto& v) { return swish(v[0], Uses::paused_value); },
                                                {tensor({0.5, 1}, DType::float64)}, {.order = 2});
  CHECK(!report.passed);
  CHECK(report.cause == Cause::failed);
  const std::string text = to_string(report);
  CHECK_MESSAGE(text.find("backward of swish (op 0) failed: it uses float64[2]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("Tape::Pause") != std::string::npos, text);
}

TEST_CASE("what a forward pass takes from a pause is a constant, in every op's backward too") {
  const Tensor x = test::leaf({0.5, 2}), w = test::leaf({3, 4});
  Tape tape({.order = 2});
  Tensor target, matrix;
  {
    const Tape::Pause pause;
    target = w * w;
    matrix = reshape(concat({target, target}, 0), {2, 2});
  }
  const Tensor m = matmul(reshape(x, {1, 2}), transpose(matrix, 0, 1));
  const Tensor y = sum(x * target) + sum(x / target) + sum(pow(x, target)) + sum(target * target * x) +
                   sum(m * m) + sum(where(greater(target, x), x * x, target)) +
                   sum(concat({x * x, target}, 0) * 3.0) + sum(square(x - target)) +
                   sum(unsqueeze(target, 1) * x);
  const Tensor g = tape.gradient(y, {x})[0];
  CHECK_NOTHROW(tape.gradient(sum(g * g), {x}));
  CHECK(tape.gradient(sum(g), {w})[0].values() == Values{0, 0});
}

TEST_CASE("an optimizer step and a moving average between derivatives of a tape of order 2 go on as before") {
  Parameter w(tensor({1, 2}, DType::float64));
  Tensor average = zeros_like(w.master());
  Tape tape({.order = 2});
  const Tensor g = tape.gradient(sum(w.value() * w.value() * w.value()), {w.value()})[0];
  {
    const Tape::Pause pause;
    average = average * 0.9 + w.value() * 0.1;
    add_in_place(average, w.value());
  }
  const Tensor second = tape.gradient(sum(g * average), {w.value()})[0];
  CHECK(second.values()[0] == doctest::Approx(6 * 1.1).epsilon(1e-14));
  CHECK(second.values()[1] == doctest::Approx(12 * 2.2).epsilon(1e-14));
}

TEST_CASE("a tape that another thread destroys while it records is an error of the next use, once") {
  const Tensor x = test::leaf({1});
  auto tape = std::make_unique<Tape>();
  const Tensor y = x * 2;
  std::thread([&] { tape.reset(); }).join();
  CHECK_THROWS_WITH(y * 2, doctest::Contains("was destroyed by another thread"));
  CHECK_NOTHROW(y * 2);
  Tape next;
  next.backward(sum(x * 3));
  CHECK(x.grad().item() == 3);
}

TEST_CASE("so is one that is paused; one that is consumed may be destroyed anywhere") {
  const Tensor x = test::leaf({1});
  auto tape = std::make_unique<Tape>();
  {
    const Tape::Pause pause;
    std::thread([&] { tape.reset(); }).join();
    CHECK_THROWS_WITH(Tape(), doctest::Contains("was destroyed by another thread"));
  }
  CHECK(Tape::recording() == nullptr);
  tape = std::make_unique<Tape>();
  tape->backward(sum(x * 3));
  std::thread([&] { tape.reset(); }).join();
  CHECK_NOTHROW(Tape());
  std::thread([&] { tape = std::make_unique<Tape>(); }).join();
  tape.reset();  // its thread is gone
  CHECK_NOTHROW(Tape());
}

TEST_CASE(
    "pauses that end out of order are an error of the next use; recording goes on when all have ended") {
  const Tensor x = test::leaf({1});
  Tape tape;
  auto outer = std::make_unique<Tape::Pause>(), inner = std::make_unique<Tape::Pause>(),
       third = std::make_unique<Tape::Pause>();
  outer.reset();
  CHECK_THROWS_WITH(Tape::recording(), doctest::Contains("a pause ended before one that began inside it"));
  CHECK(Tape::recording() == nullptr);
  third.reset();
  CHECK(Tape::recording() == nullptr);
  inner.reset();
  CHECK(Tape::recording() == &tape);
  tape.backward(sum(x * 3));
  CHECK(x.grad().item() == 3);
}

TEST_CASE("a pause that ends on another thread is an error of the next use") {
  Tape tape;
  auto pause = std::make_unique<Tape::Pause>();
  std::thread([&] { pause.reset(); }).join();
  CHECK_THROWS_WITH(Tape::recording(), doctest::Contains("or on another thread"));
  CHECK(Tape::recording() == &tape);
}
