#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

/// Σ f(x) over the axes, in a loop over all elements.
V fold(const Tensor& x, const Axes& axes, double start, const std::function<double(double, double)>& f) {
  Shape kept = x.shape();
  for (int64_t axis : axes) kept[static_cast<int>(axis)] = 1;
  const Strides strides = contiguous_strides(kept);
  V result(static_cast<size_t>(numel(kept)), start);
  const V values = x.values();
  for (size_t i = 0; i < values.size(); ++i) {
    size_t rest = i, at = 0;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const size_t size = static_cast<size_t>(x.size(axis));
      if (kept[axis] != 1) at += rest % size * static_cast<size_t>(strides[axis]);
      rest /= size;
    }
    result[at] = f(result[at], values[i]);
  }
  return result;
}

const std::vector<Axes> kSubsets = {{0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {1, 3}, {0, 2, 3}, {0, 1, 2, 3}};

/// A tensor of float32 or float64 numbers times 2^exponent.
Tensor scaled(const V& values, int exponent, DType dtype) {
  V result;
  for (const double v : values) result.push_back(std::ldexp(v, exponent));
  return tensor(result, {static_cast<int64_t>(values.size())}, dtype);
}

TEST_CASE("norm and std are right for numbers whose squares overflow or vanish, and so are their gradients") {
  const V x = {3, -4, 12, 0};
  const auto check_at = [&](DType dtype, int exponent, double tolerance) {
    INFO(name(dtype), " ", exponent);
    const auto result = [&](const Tensor& z, auto&& f) {
      Tape tape;
      tape.watch(z);
      const Tensor y = f(z);
      return std::pair{y.item(), tape.gradient({y}, {z}, {full({}, 8, dtype)})[0].values()};
    };
    const auto check_f = [&](auto&& f) {
      const auto want =
          result(scaled(x, 0, DType::float64), [&](const Tensor& z) { return cast(f(z), dtype); });
      const auto got = result(scaled(x, exponent, dtype), f);
      CHECK(std::ldexp(got.first, -exponent) == doctest::Approx(want.first).epsilon(tolerance));
      for (size_t i = 0; i < x.size(); ++i)
        CHECK(got.second[i] == doctest::Approx(want.second[i]).epsilon(tolerance).scale(1));
    };
    for (const double p : {2.0, 3.0, 0.5}) {
      // (Σ√|x|)² of four numbers is up to 16 times the largest
      if (p == 0.5 && exponent > 100) continue;
      check_f([p](const Tensor& z) { return norm(z, p); });
    }
    check_f([](const Tensor& z) { return vitrine::std(z, {}, 1); });
  };
  for (const int exponent : {-120, -90, 0, 90, 123}) check_at(DType::float32, exponent, 1e-6);
  for (const int exponent : {-1000, -500, 0, 500, 1019}) check_at(DType::float64, exponent, 1e-14);
  CHECK(norm(tensor({std::ldexp(1.0, 126)})).item() == std::ldexp(1.0, 126));
  // Differences from the mean that overflow.
  CHECK(vitrine::std(tensor({3e38, 3e38, -3e38}), {}, 0).item() ==
        doctest::Approx(2 * std::sqrt(2.0) * 1e38));
  CHECK(vitrine::std(tensor({1.5e308, -1.5e308}, DType::float64), {}, 0).item() == doctest::Approx(1.5e308));
  // The smallest number.
  CHECK(norm(tensor({std::ldexp(1.0, -149)})).item() == std::ldexp(1.0, -149));
  // Powers below 1 count small numbers next to large ones.
  CHECK(norm(tensor({1e-25, 1e25}), 0.02).item() == doctest::Approx(1.17390853e27).epsilon(1e-3));
  CHECK(norm(tensor({1e-200, 1e200}, DType::float64), 0.01).item() ==
        doctest::Approx(1.0100496620929e200).epsilon(1e-6));
  const auto slope = [](const Tensor& at, double p) {
    Tape tape;
    tape.watch(at);
    return tape.gradient(norm(at, p), {at})[0].values();
  };
  CHECK(slope(tensor({1e-25, 1e25}), 0.5)[0] == doctest::Approx(1e25));
  CHECK(slope(tensor({1e-200, 1e200}, DType::float64), 0.5)[0] == doctest::Approx(1e200));
  CHECK(slope(tensor({0, 3e-39, 2, -1e30}), 1.5)[1] == doctest::Approx(5.477e-35).epsilon(1e-3));
  {
    const Tensor x = tensor({1e-30, 1e-25, 0});
    Tape tape({.order = 2});
    tape.watch(x);
    const Tensor g = tape.gradient(norm(x, 0.5), {x})[0];
    const auto second = tape.gradient(sum(g), {x})[0].values();
    CHECK(second[0] == doctest::Approx(-1.58e32).epsilon(0.01));
    CHECK(second[1] == doctest::Approx(1.58e27).epsilon(0.01));
  }
  CHECK(norm(tensor({kInfinity, 1})).item() == kInfinity);
  CHECK(std::isnan(norm(tensor({kNan, 1})).item()));
}

TEST_CASE("a variance that overflows is infinite, not NaN, and has a finite gradient") {
  const Tensor x = scaled({1, 1, 1, 1, 1, -1}, 126, DType::float32);
  Tape tape;
  tape.watch(x);
  const Tensor y = var(x);
  CHECK(y.item() == kInfinity);
  for (const double d : tape.gradient({y}, {x}, {ones({})})[0].values()) CHECK(std::isfinite(d));
}

TEST_CASE("ordinary norms have the bits of the root of the sum of squares") {
  const Tensor x = random({5, 37}, 9, DType::float32);
  CHECK(norm(x, 2, {1}).values() == sqrt(sum(square(x), {1})).values());
}

TEST_CASE("sum, max and min over any axes equal a walk over all elements") {
  const Tensor x = random({3, 5, 2, 7}, 1);
  for (const Axes& axes : kSubsets) {
    const V sums = fold(x, axes, 0, [](double a, double b) { return a + b; });
    CHECK(distance(sum(x, axes), tensor(sums, sum(x, axes).shape(), DType::float64)) < 1e-15);
    CHECK(max(x, axes).values() ==
          fold(x, axes, -kInfinity, [](double a, double b) { return std::max(a, b); }));
    CHECK(min(x, axes).values() ==
          fold(x, axes, kInfinity, [](double a, double b) { return std::min(a, b); }));
    const V products = fold(x, axes, 1, [](double a, double b) { return a * b; });
    CHECK(distance(prod(x, axes), tensor(products, prod(x, axes).shape(), DType::float64), 1e-300) < 1e-14);
  }
  CHECK(sum(x, {1, -1}).shape() == Shape{3, 2});
  CHECK(sum(x, {1, -1}, KeepAxes::yes).shape() == Shape{3, 1, 2, 1});
  CHECK(sum(x).shape() == Shape{});
}

TEST_CASE("float32 sums of long rows and long columns are accurate to a few ulp") {
  for (const Shape& shape : {Shape{300001}, Shape{3, 40000}, Shape{40000, 3}, Shape{2, 5000, 33}}) {
    const Tensor x = random(shape, 2, DType::float32, 0, 1);
    for (int axis = 0; axis < x.rank(); ++axis)
      CHECK(distance(sum(x, {axis}), sum(copy_as(x, DType::float64), {axis})) < 3e-7);
  }
}

TEST_CASE("sums and means of 16-bit numbers are formed in float32 and rounded once") {
  for (DType dtype : {DType::bfloat16, DType::float16}) {
    const Tensor x = random({37, 1000}, 3, dtype, 0, 60), exact = copy_as(x, DType::float64);
    for (const Axes& axes : {Axes{0}, Axes{1}}) {
      CHECK(distance(sum(x, axes), sum(exact, axes)) < 0.6 * epsilon(dtype));
      CHECK(distance(mean(x, axes), mean(exact, axes)) < 0.6 * epsilon(dtype));
    }
  }
  // The sum overflows float16, the mean does not.
  CHECK(mean(full({1000}, 1000, DType::float16)).item() == 1000);
}

TEST_CASE("sums of integers and bool are int64, as are their products") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::int32);
  CHECK(sum(x).dtype() == DType::int64);
  CHECK(sum(x, {0}).values() == V{5, 7, 9});
  CHECK(prod(x, {1}).values() == V{6, 120});
  CHECK(sum(tensor({1, 0, 1}, DType::boolean)).item() == 2);
  CHECK(sum(full({3}, 4e18, DType::int64).alias({2}, {1})).item() == doctest::Approx(8e18));
}

TEST_CASE("mean, var, std and norm match hand numbers") {
  const Tensor x = tensor({1, 2, 3, 4, -5, 6}, {2, 3}, DType::float64);
  CHECK(mean(x, {1}).values() == V{2, 5.0 / 3});
  CHECK(distance(var(x, {1}), tensor({2.0 / 3, (16 + 25 + 36) / 3.0 - 25.0 / 9}, DType::float64)) < 1e-15);
  CHECK(distance(var(x, {0}, 1), tensor({4.5, 24.5, 4.5}, DType::float64)) < 1e-15);
  CHECK(distance(std(x, {0}, 1), tensor({std::sqrt(4.5), std::sqrt(24.5), std::sqrt(4.5)}, DType::float64)) <
        1e-15);
  CHECK(norm(x, 1).item() == 21);
  CHECK(norm(x, 2, {1}).values()[1] == doctest::Approx(std::sqrt(77.0)));
  CHECK(norm(x, kInfinity, {0}).values() == V{4, 5, 6});
  CHECK(norm(x, 3, {1}).values()[0] == doctest::Approx(std::cbrt(36.0)));
  CHECK(std(full({4}, 1e8), {}, 1).item() == 0);
}

TEST_CASE("cumsum runs either way, with or without the element itself") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(cumsum(x, 1).values() == V{1, 3, 6, 4, 9, 15});
  CHECK(cumsum(x, 0).values() == V{1, 2, 3, 5, 7, 9});
  CHECK(cumsum(x, -1, true).values() == V{0, 1, 3, 0, 4, 9});
  CHECK(cumsum(x, -1, false, true).values() == V{6, 5, 3, 15, 11, 6});
  CHECK(cumsum(x, -1, true, true).values() == V{5, 3, 0, 11, 6, 0});
  CHECK(cumsum(tensor({1, 1, 0, 1}, DType::boolean), 0).dtype() == DType::int64);
  CHECK(cumsum(empty({0, 3}), 0).shape() == Shape{0, 3});
  const Tensor ones_32 = full({100000}, 0.1, DType::float32);
  CHECK(cumsum(ones_32, 0).values().back() ==
        doctest::Approx(100000 * static_cast<double>(0.1f)).epsilon(1e-7));
}

TEST_CASE("a maximum that more elements share than float16 counts has a gradient of sum 1") {
  const Tensor x = zeros({70000}, DType::float16);
  Tape tape;
  tape.watch(x);
  const Tensor g = cast(tape.gradient(max(x), {x})[0], DType::float64);
  CHECK(sum(g).item() == doctest::Approx(1).epsilon(.01));
}

TEST_CASE("argmax and argmin give the first extreme, or the first NaN") {
  const Tensor x = tensor({3, 7, 7, 1, kNan, kNan, 2, 2, 2}, {3, 3}, DType::float32);
  CHECK(argmax(x, 1).values() == V{1, 1, 0});
  CHECK(argmin(x, 1).values() == V{0, 1, 0});
  CHECK(argmax(x, 0).values() == V{0, 1, 1});
  CHECK(argmax(x, 0, KeepAxes::yes).shape() == Shape{1, 3});
  CHECK(argmin(tensor({2, -1, 5}, DType::int64), 0).item() == 1);
  CHECK(argmax(full({4}, -kInfinity), 0).item() == 0);
  CHECK(argmax(Tensor(3.0)).item() == 0);
  CHECK(argmin(tensor({2, 7, 1, 5}, {2, 2})).item() == 2);
}

TEST_CASE("argmax and argmin over several axes count positions among their elements, row by row") {
  const Tensor x = random({3, 4, 5, 2}, 1, DType::float32);
  const Axes all_axes = {0, 1, 2, 3};
  for (const Axes& axes : {Axes{0, 1}, {1, 3}, {3, 0}, {0, 2, 3}, {-1}, {2}, all_axes, {}}) {
    Axes kept, order;
    for (int64_t axis : all_axes) {
      const bool reduced =
          axes.empty() ||
          std::count(axes.begin(), axes.end(), axis) + std::count(axes.begin(), axes.end(), axis - 4) > 0;
      (reduced ? order : kept).push_back(axis);
    }
    order.insert(order.begin(), kept.begin(), kept.end());
    const Tensor flat = flatten(permute(x, order), static_cast<int64_t>(kept.size()));
    for (const Tensor& from : {x, transpose(clone(transpose(x)))}) {
      const Tensor y = argmax(from, axes), z = argmin(from, axes, KeepAxes::yes);
      CHECK(distance(squeeze(gather(flat, -1, unsqueeze(y, -1)), {-1}), max(x, axes)) == 0);
      CHECK(z.shape() == min(x, axes, KeepAxes::yes).shape());
      CHECK(argmin(from, axes).values() == z.values());
      CHECK(distance(squeeze(gather(flat, -1, unsqueeze(argmin(from, axes), -1)), {-1}), min(x, axes)) == 0);
    }
  }
}

TEST_CASE("any and all count everything but 0 as true, NaN too") {
  const Tensor x = tensor({0, 0, 0, 0, kNan, -1}, {2, 3});
  CHECK(any(x, {1}).values() == V{0, 1});
  CHECK(all(x, {0}).values() == V{0, 0, 0});
  CHECK(all(slice(x, 1, 1), {1}).values() == V{0, 1});
  CHECK(any(x).item() == 1);
  CHECK(any(x).dtype() == DType::boolean);
}

TEST_CASE("of no elements sum is 0, prod 1, any false and all true") {
  const Tensor x = empty({2, 0, 3});
  CHECK(sum(x, {1}).values() == V(6, 0));
  CHECK(sum(x, {0}).shape() == Shape{0, 3});
  CHECK(prod(x, {1}).values() == V(6, 1));
  CHECK(any(x, {1}).values() == V(6, 0));
  CHECK(all(x, {1}).values() == V(6, 1));
  CHECK(sum(x).item() == 0);
  CHECK(max(x, {0}).shape() == Shape{0, 3});  // there are elements along axis 0, but no results
  CHECK(error_of([&] { max(x, {1}); }) ==
        "max: x has the shape [2, 0, 3]: there are no elements along the axes [1] to reduce");
  CHECK(error_of([&] { mean(x); }).starts_with("mean: x has the shape [2, 0, 3]"));
  CHECK(error_of([&] { argmin(x, 1); }).starts_with("argmin: x has the shape"));
}

TEST_CASE("a scalar reduces to itself") {
  const Tensor x(3.5);
  CHECK(sum(x).item() == 3.5);
  CHECK(max(x).item() == 3.5);
  CHECK(prod(x).item() == 3.5);
  CHECK(var(x).item() == 0);
  CHECK(norm(Tensor(-2.0)).item() == 2);
}

TEST_CASE("NaN and infinities pass through reductions") {
  const Tensor x = tensor({1, kNan, 2, kInfinity, 3, -kInfinity, 5, kInfinity}, {4, 2});
  CHECK(std::isnan(max(x).item()));
  CHECK(std::isnan(min(x).item()));
  CHECK(std::isnan(max(x, {0}).values()[1]));
  CHECK(max(x, {0}).values()[0] == 5);
  CHECK(std::isnan(sum(x).item()));
  CHECK(sum(x, {1}).values()[1] == kInfinity);
  CHECK(std::isnan(std(x).item()));
  CHECK(norm(slice(x, 0, 1, 2)).item() == kInfinity);
}

TEST_CASE("views that are not contiguous reduce like their copies") {
  const Tensor x = random({6, 5, 4}, 4);
  for (const Tensor& view :
       {transpose(x), permute(x, {2, 0, 1}), slice(x, 1, 3, 0, -1), expand(slice(x, 1, 0, 1), {6, 3, 4})}) {
    const Tensor copy = copy_as(view, view.dtype());
    for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}}) {
      CHECK(sum(view, axes).values() == sum(copy, axes).values());
      CHECK(max(view, axes).values() == max(copy, axes).values());
    }
    CHECK(cumsum(view, 1).values() == cumsum(copy, 1).values());
    CHECK(argmax(view, 1).values() == argmax(copy, 1).values());
  }
}

TEST_CASE("gradients of reductions match differences to the third order") {
  const Tensor x = random({3, 4, 2}, 5);
  for (const Axes& axes : {Axes{0}, Axes{1, 2}, Axes{0, 2}, Axes{}}) {
    const auto check_op = [&](const std::function<Tensor(const Tensor&)>& op) {
      // The square makes the derivatives of a linear op depend on x.
      CHECK(gradient_error([&](const auto& xs) { return square(op(xs[0] * xs[0] + xs[0])); }, {x}, 2) < 1e-7);
    };
    check_op([&](const Tensor& t) { return sum(t, axes); });
    check_op([&](const Tensor& t) { return mean(t, axes, KeepAxes::yes); });
    check_op([&](const Tensor& t) { return prod(t, axes); });
    check_op([&](const Tensor& t) { return max(t, axes); });
    check_op([&](const Tensor& t) { return min(t, axes); });
    check_op([&](const Tensor& t) { return var(t, axes, 1); });
    check_op([&](const Tensor& t) { return std(t, axes); });
    check_op([&](const Tensor& t) { return norm(t, 2, axes); });
  }
  const Tensor y = random({2, 3}, 6, DType::float64, 0.5, 1.5);
  CHECK(gradient_error([](const auto& xs) { return norm(xs[0], 3, {1}); }, {y}, 3) < 1e-6);
  CHECK(gradient_error([](const auto& xs) { return norm(xs[0], 1, {0}); }, {y}) < 1e-7);
  CHECK(gradient_error([](const auto& xs) { return norm(xs[0], kInfinity, {0}); }, {y}) < 1e-7);
  CHECK(gradient_error([](const auto& xs) { return pow(cumsum(xs[0], 1), 3); }, {y}, 3) < 1e-6);
  CHECK(gradient_error([](const auto& xs) { return square(cumsum(xs[0], 0, true, true)); }, {y}) < 1e-7);
  CHECK(gradient_error([](const auto& xs) { return square(sum_to(xs[0], {3})); }, {y}) < 1e-7);
  CHECK(gradient_error([](const auto& xs) { return prod(xs[0], {1}); }, {y}, 3) < 1e-6);
}

V gradient_of(const std::function<Tensor(const Tensor&)>& op, const Tensor& x) {
  Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor y = op(watched);
  return tape.gradient({y}, {watched}, {ones_like(y)})[0].values();
}

TEST_CASE("max shares its gradient evenly among equal elements; NaN takes it all") {
  CHECK(gradient_of([](const Tensor& x) { return max(x); }, tensor({1, 4, 2, 4, 0}, DType::float64)) ==
        V{0, 0.5, 0, 0.5, 0});
  CHECK(gradient_of([](const Tensor& x) { return min(x, {0}); },
                    tensor({3, 1, 3, 1}, {2, 2}, DType::float64)) == V{0.5, 0.5, 0.5, 0.5});
  CHECK(gradient_of([](const Tensor& x) { return max(x); }, tensor({1, kNan, 2}, DType::float64)) ==
        V{0, 1, 0});
}

TEST_CASE("gradients where a derivative is infinite times zero are 0") {
  const Tensor zero = zeros({3}, DType::float64);
  for (double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInfinity})
    CHECK(gradient_of([&](const Tensor& x) { return norm(x, p); }, zero) == V{0, 0, 0});
  CHECK(gradient_of([&](const Tensor& x) { return std(x); }, full({3}, 7, DType::float64)) == V{0, 0, 0});
  CHECK(gradient_of([&](const Tensor& x) { return prod(x); }, tensor({2, 0, 5}, DType::float64)) ==
        V{0, 10, 0});
  CHECK(gradient_of([&](const Tensor& x) { return prod(x); }, tensor({2, 0, 0}, DType::float64)) ==
        V{0, 0, 0});
}

TEST_CASE("sum_to undoes a broadcast") {
  const Tensor x = random({4, 2, 3}, 7);
  CHECK(sum_to(x, {2, 1}).shape() == Shape{2, 1});
  CHECK(distance(sum_to(x, {2, 1}), sum(x, {0, 2}, KeepAxes::no).alias({2, 1}, {1, 1})) == 0);
  CHECK(sum_to(x, {}).shape() == Shape{});
  CHECK(sum_to(x, {4, 2, 3}).is_same(x));
  CHECK(error_of([&] {
          sum_to(x, {5, 3});
        }) == "sum_to: x has the shape [4, 2, 3], which [5, 3] does not broadcast to");
}

TEST_CASE("reductions do not depend on the number of threads") {
  const Tensor x = random({3, 1000, 67}, 8, DType::float32), row = random({500000}, 9, DType::float32);
  CHECK(same_on_any_threads([&] {
    return std::vector<Tensor>{sum(x, {0}), sum(x, {1}), sum(x, {2}),  sum(x),
                               sum(row),    max(row),    cumsum(x, 1), var(x, {1})};
  }));
}

TEST_CASE("errors name the op, the axis and what came") {
  const Tensor x = empty({2, 3});
  CHECK(error_of([&] { sum(x, {2}); }) == "sum: axis 2 is outside [-2, 2) for the shape [2, 3]");
  CHECK(error_of([&] { sum(x, {1, -1}); }) == "sum: axis 1 is given twice");
  CHECK(error_of([&] { cumsum(x, -3); }).starts_with("cumsum: axis -3"));
  CHECK(error_of([&] { norm(x, 0); }) == "norm: p is 0, wanted a positive number or infinity");
  CHECK(error_of([&] { var(x, {0}, 2); }).starts_with("var: the correction is 2, wanted 0 to 1"));
  CHECK(error_of([] { mean(empty({2}, DType::int64)); }) ==
        "mean: x is int64[2] on cpu, wanted a floating dtype (cast it first)");
}

}  // namespace
}  // namespace vitrine::test
