#include "core/gradcheck/check_gradients.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "core/record.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Xs = const std::vector<Tensor>&;
using Function = std::function<Tensor(Xs)>;

/// An op that computes f without a tape, and whose gradient is the one that `backward` returns.
template <class F, class B>
Tensor claim(std::initializer_list<Tensor> inputs, F&& f, B&& backward) {
  Tensor y;
  {
    const Tape::Pause pause;
    y = f();
  }
  return record("claimed", inputs, y, backward);
}

/// y = x², with a gradient of factor·2x.
Function square_claiming(double factor) {
  return [factor](Xs x) {
    return claim(
        {x[0]}, [&] { return x[0] * x[0]; },
        [x = x[0], factor](const Tensor& dy) -> Grads { return {dy * x * (2 * factor)}; });
  };
}

constexpr Probe kProbes[] = {Probe::jacobian, Probe::elements, Probe::directions};

/// The cause that every probe finds; all probes must agree.
Cause cause_of(const Function& f, const std::vector<Tensor>& inputs, const std::string& part = "",
               GradientCheckOptions options = {}) {
  Cause cause = Cause::none;
  for (Probe probe : kProbes) {
    options.probe = probe;
    const GradientReport report = check_gradients(f, inputs, options);
    CHECK(report.passed == (report.cause == Cause::none));
    CHECK_MESSAGE(report.explanation.find(part) != std::string::npos, report.explanation);
    if (probe != kProbes[0]) CHECK_MESSAGE(report.cause == cause, to_string(report));
    cause = report.cause;
  }
  return cause;
}

}  // namespace

TEST_CASE(
    "right gradients pass, with every probe, by differences, dual numbers and Taylor's remainder, to order "
    "3") {
  const Tensor x = test::positive({4, 3}), w = test::positive({3, 2}, 2), b = test::positive({2}, 3);
  for (Probe probe : kProbes) {
    const auto r = check_gradients([](Xs v) { return softmax(tanh(matmul(v[0], v[1]) + v[2])); }, {x, w, b},
                                   {.probe = probe, .order = 3});
    CHECK_MESSAGE(r.passed, to_string(r));
    CHECK(r.cause == Cause::none);
    CHECK(r.error() < 1e-6);
    CHECK(r.taylor_slope == doctest::Approx(2).epsilon(0.05));
    for (const auto& input : r.inputs) {
      CHECK(input.used);
      CHECK((input.difference_error >= 0 && input.difference_error < 1e-9));
      CHECK((input.dual_error >= 0 && input.dual_error < 1e-12));
      CHECK(input.higher_errors.size() == 2);
    }
  }
}

TEST_CASE("the probe is chosen by size") {
  const auto method = [](int64_t n) {
    return check_gradients([](Xs v) { return square(v[0]); }, {test::positive({n})}).method;
  };
  CHECK(method(10) == "every ∂y/∂x, 10 × 10");
  CHECK(method(200).starts_with("each of 200 elements"));
  CHECK(method(3000).find("random directions") != std::string::npos);
}

TEST_CASE("smooth functions that are made of halves have their slopes at 0, by tape, duals and definition") {
  for (Tensor (*const f)(const Tensor&) : {sigmoid, softplus, silu, mish, gelu_tanh})
    for (const int order : {1, 2}) {
      GradientCheckOptions options;
      options.order = order;
      const auto r = check_gradients([f](Xs v) { return f(v[0]); }, {zeros({3}, DType::float64)}, options);
      CHECK_MESSAGE(r.passed, to_string(r));
    }
}

TEST_CASE("a parameter that is listed twice is checked once, and stays as it was") {
  Parameter w(tensor({1, 2}, DType::float64));
  const Parameter again = w;
  const Tensor x = tensor({3, 4}, DType::float64);
  GradientCheckOptions options;
  options.parameters = {w, again};
  const auto r = check_gradients([&](Xs v) { return sum(v[0] * w.value()); }, {x}, options);
  CHECK_MESSAGE(r.passed, to_string(r));
  CHECK(r.inputs.size() == 2);
  CHECK(w.value().values() == std::vector<double>{1, 2});
  CHECK(w.requires_grad());
}

TEST_CASE("functions that are straight, steep, tiny, huge or empty pass") {
  const Tensor x = test::positive({5});
  const auto passes = [](const Function& f, const Tensor& at) {
    const auto r = check_gradients(f, {at});
    CHECK_MESSAGE(r.passed, to_string(r));
  };
  passes([](Xs v) { return v[0] * 3.0; }, x);
  passes([](Xs v) { return v[0]; }, x);
  passes([](Xs v) { return relu(v[0]); }, x);
  passes([](Xs v) { return log(v[0]); }, x * 1e-6);
  passes([](Xs v) { return square(v[0]); }, x * 1e6);
  passes([](Xs v) { return exp(v[0] * 30.0); }, x);
  passes([](Xs v) { return log(v[0]); },
         full({100}, 1e-3, DType::float64));  // the first step leaves log's domain, everywhere
  passes([](Xs v) { return sum(v[0]); }, zeros({0, 3}, DType::float64));
  passes([](Xs v) { return slice(v[0], 0, 0, 0); }, x);
  passes([](Xs v) { return v[0]; }, Tensor(2.0, DType::float64));
  // A kink within the first step.
  passes([](Xs v) { return relu(v[0] - 0.999); }, ones({1}, DType::float64));
}

TEST_CASE("an input that y does not depend on is named") {
  const auto r =
      check_gradients([](Xs v) { return square(v[0]); }, {test::positive({3}), test::positive({2})});
  CHECK(r.passed);
  CHECK(r.inputs[0].used);
  CHECK_FALSE(r.inputs[1].used);
  CHECK(to_string(r).find("y does not depend on it") != std::string::npos);
}

TEST_CASE("a tape that records meanwhile sees nothing of a check") {
  Tape tape;
  const Tensor x = test::positive({3});
  tape.watch(x);
  CHECK(check_gradients([](Xs v) { return square(v[0]); }, {x}, {.order = 2}).passed);
  CHECK(tape.size() == 0);
  CHECK(tape.gradient(sum(square(x)), {x})[0].values() == (x * 2.0).values());
}

TEST_CASE("what cannot be checked is an error that says why") {
  const auto f = [](Xs v) { return cast(v[0], DType::int64); };
  CHECK_THROWS_WITH_AS(check_gradients(f, {}), doctest::Contains("no inputs"), Error);
  CHECK_THROWS_WITH_AS(check_gradients(f, {arange(0, 3)}), doctest::Contains("input 0 is int64[3]"), Error);
  CHECK_THROWS_WITH_AS(check_gradients(f, {test::positive({3})}), doctest::Contains("y is int64[3]"), Error);
}

TEST_CASE("a wrong sign is told") {
  CHECK(cause_of(square_claiming(-1), {test::positive({3, 4})}, "the negative") == Cause::sign);
  CHECK(cause_of(square_claiming(-1), {test::positive({1})}) == Cause::sign);
}

TEST_CASE("a constant factor is told, and what it may come from") {
  CHECK(cause_of(square_claiming(2), {test::positive({3, 5})}, "is 2 times") == Cause::factor);
  CHECK(cause_of(square_claiming(0.5), {test::positive({3, 5})}, "is 1/2 times") == Cause::factor);
  CHECK(cause_of(square_claiming(1.01), {test::positive({3, 5})}, "is 1.01 times") == Cause::factor);
  CHECK(cause_of(square_claiming(0.2), {test::positive({3, 5})},
                 "5 is the size of axis 1 of y: a mean in place of a sum") == Cause::factor);
  CHECK(cause_of(square_claiming(15), {test::positive({3, 5})}, "15 is the number of elements of y: a sum") ==
        Cause::factor);
}

TEST_CASE("a missing sum over a broadcast axis is told, by shape or by value") {
  const auto add_bias = [](auto&& reduce) {
    return [reduce](Xs v) {
      return claim(
          {v[0], v[1]}, [&] { return v[0] + v[1]; },
          [reduce](const Tensor& dy) -> Grads {
            return {dy, reduce(dy)};
          });
    };
  };
  const std::vector<Tensor> xs = {test::positive({4, 3}), test::positive({3}, 2)};
  CHECK(cause_of(add_bias([](const Tensor& dy) { return sum(dy, {0}); }), xs) == Cause::none);
  CHECK(cause_of(add_bias([](const Tensor& dy) { return dy; }), xs, "[4, 3] for an input of [3]") ==
        Cause::missing_sum);
  CHECK(cause_of(add_bias([](const Tensor& dy) { return select(dy, 0, 2); }), xs,
                 "slice 2 along axis 0 of y") == Cause::missing_sum);
  CHECK(cause_of(add_bias([](const Tensor& dy) { return mean(dy, {0}); }), xs,
                 "4 is the size of axis 0 of y: a mean") == Cause::factor);
}

TEST_CASE("a kink and a jump are told, with the slopes on both sides") {
  CHECK(cause_of([](Xs v) { return relu(v[0]); }, {tensor({-1, 0, 2}, DType::float64)},
                 "at [1] of input 0") == Cause::kink);
  CHECK(cause_of([](Xs v) { return abs(v[0]); }, {tensor({-1, 2, 0}, DType::float64)}, "at [2]") ==
        Cause::kink);
  const auto step = [](Xs v) { return cast(greater(v[0], zeros_like(v[0])), DType::float64) + v[0] * 0.5; };
  CHECK(cause_of(step, {tensor({-1, 0, 2}, DType::float64)}, "jumps") == Cause::kink);
}

TEST_CASE("float32, in an input or on the way, is told") {
  const auto f = [](Xs v) { return exp(v[0]) * v[0]; };
  CHECK(cause_of(f, {copy_as(test::positive({3, 4}), DType::float32)}, "input 0 is float32") ==
        Cause::low_precision);
  const auto through = [](Xs v) { return exp(cast(exp(cast(v[0], DType::float32)), DType::float64)); };
  CHECK(cause_of(through, {test::positive({3, 4})}, "gives float32") == Cause::low_precision);
  // An error larger than the noise is reported as wrong.
  CHECK(cause_of(square_claiming(-1), {copy_as(test::positive({3, 4}), DType::float32)}) == Cause::sign);
  CHECK(cause_of(square_claiming(2), {copy_as(test::positive({3, 4}), DType::float32)}, "2 times") ==
        Cause::factor);
}

TEST_CASE("a cut tape is told, and where it is cut") {
  CHECK(cause_of([](Xs v) { return square(detach(v[0])); }, {test::positive({3})}, "cut by detach (op 0)") ==
        Cause::cut);
  CHECK(cause_of([](Xs v) { return tensor(v[0].values(), {3}, DType::float64) * v[1]; },
                 {test::positive({3}), test::positive({3}, 2)}, "never used") == Cause::cut);
  CHECK(cause_of([](Xs v) { return square(v[0]) + exp(detach(v[0])); }, {test::positive({3})},
                 "lacks a part; the tape is cut by detach") == Cause::cut);
  CHECK(cause_of([](Xs v) { return v[0] * detach(v[0]); }, {test::positive({3})}, "1/2 times") ==
        Cause::factor);
  CHECK(cause_of([](Xs v) { return v[0] * detach(v[0]); }, {test::positive({3})}, "cut by detach") ==
        Cause::factor);
}

TEST_CASE("a gradient of zero is told, of all elements or of some") {
  CHECK(cause_of(square_claiming(0), {test::positive({3, 4})}, "0 everywhere") == Cause::zero);
  const auto forgetful = [](Xs v) {
    return claim(
        {v[0]}, [&] { return v[0] * v[0]; },
        [x = v[0]](const Tensor& dy) -> Grads {
          return {dy * x * 2.0 * tensor({1, 0, 1, 0}, DType::float64)};
        });
  };
  CHECK(cause_of(forgetful, {test::positive({4})}, "0 at 2 of 4 elements") == Cause::zero);
}

TEST_CASE("random functions, values that are not finite, and backwards that throw are told") {
  Generator generator(1);
  CHECK(cause_of([&](Xs v) { return dropout(v[0], 0.5, generator); }, {test::positive({30})},
                 "different values") == Cause::random);
  int calls = 0;
  CHECK(cause_of([&](Xs v) { return slice(v[0], 0, 0, ++calls % 2); }, {test::positive({3})}) ==
        Cause::random);
  CHECK(cause_of([](Xs v) { return sqrt(v[0]); }, {tensor({1, 0}, DType::float64)}) == Cause::not_finite);
  const auto throws = [](Xs v) {
    return claim(
        {v[0]}, [&] { return v[0] * v[0]; }, [](const Tensor&) -> Grads { fail("not written yet"); });
  };
  CHECK(cause_of(throws, {test::positive({3})}, "not written yet") == Cause::failed);
}

TEST_CASE("a wrong gradient of no known kind is called unknown") {
  const auto f = [](Xs v) {
    return claim(
        {v[0]}, [&] { return v[0] * v[0]; }, [x = v[0]](const Tensor& dy) -> Grads { return {dy * exp(x)}; });
  };
  CHECK(cause_of(f, {test::positive({3, 4})}) == Cause::unknown);
}

TEST_CASE("a first derivative that is right does not hide a second that is not") {
  // The backward computes with values that the tape does not track.
  const auto f = [](Xs v) {
    return claim(
        {v[0]}, [&] { return v[0] * v[0]; },
        [x = v[0]](const Tensor& dy) -> Grads { return {dy * detach(x) * 2.0}; });
  };
  CHECK(check_gradients(f, {test::positive({3})}, {.order = 1}).passed);
  const auto r = check_gradients(f, {test::positive({3})}, {.order = 2});
  CHECK_FALSE(r.passed);
  CHECK(r.cause == Cause::zero);
  CHECK(r.explanation.find("but that of order 2 is 0 everywhere") != std::string::npos);
}

TEST_CASE("the worst element is found among many, from a few directions") {
  const auto f = [](Xs v) {
    return claim(
        {v[0]}, [&] { return sum(v[0] * v[0]); },
        [x = v[0]](const Tensor& dy) -> Grads {
          Tensor dx = dy * x * 2.0;
          dx.data<double>()[1234] += 0.5;
          return {dx};
        });
  };
  const auto r = check_gradients(f, {test::positive({50, 100})});
  REQUIRE_FALSE(r.passed);
  CHECK(r.inputs[0].element == "[12, 34]");
  CHECK(r.inputs[0].analytic - r.inputs[0].numeric == doctest::Approx(0.5));
}

TEST_CASE("Taylor's remainder falls as h where the gradient is wrong") {
  CHECK(check_gradients(square_claiming(1.1), {test::positive({3})}).taylor_slope ==
        doctest::Approx(1).epsilon(0.1));
  CHECK(check_gradients(square_claiming(1), {test::positive({3})}).taylor_slope ==
        doctest::Approx(2).epsilon(0.01));
  CHECK(check_gradients([](Xs v) { return v[0] * 2.0; }, {test::positive({3})}).taylor_slope == 0);
  // It also fails a check on its own.
  const auto r = check_gradients(square_claiming(1.1), {test::positive({3})},
                                 {.differences = false, .duals = Duals::no});
  CHECK_FALSE(r.passed);
}

TEST_CASE("dual numbers see what differences cannot, and where they cannot run the report says why") {
  const auto r = check_gradients(square_claiming(1 + 1e-9), {test::positive({3})});
  CHECK_FALSE(r.passed);
  CHECK(r.inputs[0].difference_error < 1e-6);
  CHECK(r.inputs[0].dual_error > 1e-10);
  const auto doubles_only = [](Xs v) {
    (void)v[0].data<double>();
    return square(v[0]);
  };
  const auto without = check_gradients(doubles_only, {test::positive({3})});
  CHECK(without.passed);
  CHECK(without.dual_note.find("dual64") != std::string::npos);
  CHECK_FALSE(check_gradients(doubles_only, {test::positive({3})}, {.duals = Duals::yes}).passed);
}

TEST_CASE("the report reads as it should") {
  const auto f = [](Xs v) { return square_claiming(-1)({v[1]}) * v[0]; };
  const auto r = check_gradients(f, {tensor({2, 3}, DType::float64), tensor({1, 2}, DType::float64)});
  const std::string text = to_string(r);
  CHECK(text.find("gradient check of every ∂y/∂x, 2 × 4: WRONG") == 0);
  CHECK(text.find("input 0  float64[2]         right ") != std::string::npos);
  CHECK(text.find("worst at [1] for output [1]: the tape says -12, it should be 12") != std::string::npos);
  CHECK(to_string(check_gradients([](Xs v) { return abs(v[0]); }, {zeros({2}, DType::float64)}))
            .find("UNDECIDED") != std::string::npos);
  CHECK(text.find("likely cause: sign: the gradient of input 1 is the negative") != std::string::npos);
}

TEST_CASE("differences are exact for polynomials of degree 4, and settle where one step would fail") {
  const auto quartic = [](double t) {
    return std::vector<double>{1 + t - 3 * t * t + t * t * t + 7 * t * t * t * t};
  };
  CHECK(central_difference(quartic, 0.25)[0] == doctest::Approx(1).epsilon(1e-14));
  const auto log_near_zero = [](double t) { return std::vector<double>{std::log(1e-5 + t)}; };
  CHECK(settled_difference(log_near_zero).slope[0] == doctest::Approx(1e5).epsilon(1e-6));
  CHECK(distance({1, NAN, INFINITY}, {1, NAN, INFINITY}, 1) == 0);
  CHECK(distance({1}, {NAN}, 1) == INFINITY);
  CHECK(distance({1.5}, {1}, 10) == 0.05);
}

TEST_CASE("a wrong gradient of a function without outputs is told, not a crash") {
  const auto report = check_gradients(
      [](Xs v) {
        return record(
            "broken", {v[0]}, zeros({0}, DType::float64),
            [shape = v[0].shape()](const Tensor&) -> Grads { return {ones(shape, DType::float64)}; });
      },
      {test::positive({3})});
  CHECK_FALSE(report.passed);
}
