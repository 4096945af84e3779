// Elementwise kernels against plain loops, for all strides, with enough elements that the work is
// cut into pieces. The spec rows check the functions themselves.
#include "ops/elementwise.h"

#include <cmath>

#include "core/convert.h"
#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/gradcheck/dual.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/activation.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/toeplitz.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using Xs = const std::vector<Tensor>&;
using V = std::vector<double>;

constexpr int64_t kMany = 40013;  // pieces have up to 16,384 elements

/// The elements of x, broadcast to `shape`, each found through its strides.
V elements(const Tensor& x, const Shape& shape) {
  if (broadcast("elements", x.shape(), shape) != shape)
    return V(static_cast<size_t>(numel(shape)));  // no operand of it
  V result;
  const int added = shape.rank() - x.rank();
  for (int64_t i = 0; i < numel(shape); ++i) {
    int64_t place = 0, rest = i;
    for (int axis = shape.rank() - 1; axis >= added; rest /= shape[axis--])
      if (x.shape()[axis - added] != 1) place += rest % shape[axis] * x.strides()[axis - added];
    visit_all(x.dtype(), [&](auto type) {
      result.push_back(convert<double>(x.data<typename decltype(type)::type>()[place]));
    });
  }
  return result;
}

V elements(const Tensor& x) { return elements(x, x.shape()); }

struct Layout {
  const char* name;
  std::vector<Tensor> operands;
};

/// Three operands that broadcast to kMany elements or a few less.
std::vector<Layout> layouts(DType dtype) {
  uint64_t seed = 0;
  const auto draw = [&](const Shape& shape) { return random(shape, ++seed, dtype, 0.25, 2); };
  const auto every_other = [&](int64_t n) { return select(draw({n, 2}), 1, 1); };
  return {
      {"one after the other", {draw({kMany}), draw({kMany}), draw({kMany})}},
      {"strided", {every_other(kMany), flip(draw({kMany}), {0}), draw({kMany})}},
      {"transposed", {transpose(draw({200, 199})), draw({199, 200}), transpose(draw({200, 199}))}},
      {"a number repeated", {draw({kMany}), draw({}), draw({1})}},
      {"a number first", {draw({}), every_other(kMany), draw({kMany})}},
      {"rows and columns", {draw({19, 1}), draw({2111}), draw({19, 2111})}},
      {"short rows", {draw({3001, 1}), draw({13}), draw({3001, 13})}},
  };
}

struct Kernel {
  const char* name;
  Tensor (*call)(Xs);
  double (*want)(double x, double y, double z);
};

const std::vector<Kernel> kKernels = {
    {"unary", [](Xs x) { return vitrine::exp(x[0]); }, [](double x, double, double) { return std::exp(x); }},
    {"binary", [](Xs x) { return x[0] - x[1]; }, [](double x, double y, double) { return x - y; }},
    {"compare", [](Xs x) { return less(x[0], x[1]); },
     [](double x, double y, double) { return double(x < y); }},
    {"logic", [](Xs x) { return logical_xor(less(x[0], x[1]), less(x[1], x[2])); },
     [](double x, double y, double z) { return double((x < y) != (y < z)); }},
    {"choose", [](Xs x) { return where(less(x[1], x[2]), x[0], x[2]); },
     [](double x, double y, double z) { return y < z ? x : z; }},
    {"copy", [](Xs x) { return clone(x[0]); }, [](double x, double, double) { return x; }},
    {"convert", [](Xs x) { return cast(x[0], DType::dual64); }, [](double x, double, double) { return x; }},
    {"unary_backward",
     [](Xs x) {
       Tape tape;
       tape.watch(x[0]);
       const Tensor y = tanh(x[0]);
       return tape.gradient({y}, std::vector<Tensor>{x[0]}, {expand(cast(x[1], y.dtype()), y.shape())})[0];
     },
     [](double x, double y, double) { return y * (1 - std::tanh(x) * std::tanh(x)); }},
};

}  // namespace

TEST_CASE(
    "elementwise kernels give what plain loops give, however the operands lie and however long they are") {
  for (DType dtype : kFloatTypes)
    for (const Layout& layout : layouts(dtype))
      for (const Kernel& kernel : kKernels) {
        Xs operands = layout.operands;
        // The shape of a gradient to which the other operand must broadcast.
        const Shape& first = operands[0].shape();
        if (std::string_view(kernel.name) == "unary_backward" &&
            broadcast("", first, operands[1].shape()) != first)
          continue;
        const Tensor got = kernel.call(operands);
        const V x = elements(operands[0], got.shape()), y = elements(operands[1], got.shape()),
                z = elements(operands[2], got.shape());
        V want;
        for (size_t i = 0; i < x.size(); ++i) want.push_back(kernel.want(x[i], y[i], z[i]));
        CHECK_MESSAGE(vitrine::distance(elements(got), want, 1e-3) <= 4 * epsilon(dtype),
                      fmt::format("{}, {}, {}", kernel.name, layout.name, name(dtype)));
        CHECK_MESSAGE(same_on_any_threads([&] { return std::vector<Tensor>{kernel.call(operands)}; }),
                      fmt::format("{}, {}, {}: threads", kernel.name, layout.name, name(dtype)));
      }
}

TEST_CASE("powers of 0 have all their derivatives, from the tape and from dual numbers") {
  // x⁰, x¹, x², x³ at 0, and their first three derivatives there.
  const std::vector<std::vector<double>> want = {{0, 1, 0, 0}, {0, 0, 2, 0}, {0, 0, 0, 6}};
  const Tensor exponents = tensor({0, 1, 2, 3}, DType::float64);
  Tape tape({.order = 3});
  const Tensor x = tape.watch(zeros({4}, DType::float64));
  Tensor y = pow(x, exponents);
  CHECK(y.values() == std::vector<double>{1, 0, 0, 0});
  for (const auto& values : want) {
    y = tape.gradient(sum(y), {x}, Keep::yes)[0];
    CHECK(y.values() == values);
  }
  const Dual p = pow(Dual(0, 1), Dual(0, 1)), r = pow(Dual(0, 1), Dual(2, 1));
  CHECK(p.value == 1);
  CHECK(p.tangent == 0);
  CHECK(r.tangent == 0);
}

TEST_CASE("kernels that write into strided memory reach every element once, and none between") {
  for (DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{kMany}, Shape{19, 2111}, Shape{3001, 13}}) {
      Shape wide = shape;
      wide.push_back(2);
      Tensor whole = full(wide, 7, dtype);
      Tensor part = select(whole, -1, 1);
      VITRINE_RUN(fill, part, 0.5);
      const Tensor x = random(shape, 1, dtype, 0.25, 2);
      add_in_place(part, x);
      V want;
      for (double v : elements(x)) want.insert(want.end(), {7, v + 0.5});
      CHECK(vitrine::distance(elements(whole), want, 1e-3) <= epsilon(dtype));
    }
}

TEST_CASE("a number keeps its digits next to 16-bit tensors") {
  const auto half = [](double x) { return tensor({x}, DType::float16); };
  CHECK((half(60000) / 100000.).item() == doctest::Approx(.6).epsilon(1e-3));
  CHECK((1e5 / half(1000)).item() == doctest::Approx(100).epsilon(1e-3));
  CHECK((half(6e-5) / 2e-8).item() == doctest::Approx(3000).epsilon(1e-3));
  CHECK(pow(tensor({1000}, DType::bfloat16), 2.2).item() == doctest::Approx(3.981e6).epsilon(4e-3));
  Tensor x = zeros({2}, DType::float32);
  add_in_place(x, ones({2}, DType::float16), 1e-8);
  CHECK(x.values()[1] == doctest::Approx(1e-8));
}

TEST_CASE("elu has the slope 1 at 0, on a tape of every order") {
  for (const int order : {1, 2}) {
    Tape tape({.order = order});
    const Tensor x = tape.watch(zeros({1}, DType::float64));
    CHECK(tape.gradient(sum(elu(x)), {x}, Keep::yes)[0].item() == 1);
    CHECK(tape.gradient(sum(elu_plus_one(x)), {x}, Keep::yes)[0].item() == 1);
  }
}

TEST_CASE("in place, a view whose rows overlap is refused") {
  const Tensor x = zeros({4}, DType::float32);
  Tensor t = toeplitz(x, 2);
  CHECK_THROWS_WITH_AS(add_in_place(t, ones(t.shape(), DType::float32)),
                       doctest::Contains("rows of x may overlap"), Error);
  CHECK_THROWS_WITH_AS(scale_in_place(t, 2), doctest::Contains("rows of x may overlap"), Error);
  Tensor apart = transpose(slice(zeros({3, 4, 5}, DType::float32), 1, 1, 3), 0, 2);
  add_in_place(apart, ones(apart.shape(), DType::float32));
  CHECK(sum(apart).item() == 30);
}

TEST_CASE("adding another view of the same memory in place adds what was there before") {
  for (const double scale : {1.0, 0.5}) {
    Tensor x = random({130, 130}, 1, DType::float64, -1, 1);
    const Tensor want = x + scale * transpose(clone(x));
    add_in_place(x, transpose(x), scale);
    CHECK(elements(x) == elements(want));
    Tensor y = random({40000}, 2, DType::float64, -1, 1), tail = slice(y, 0, 1, 40000);
    const Tensor sums = clone(tail) + scale * clone(slice(y, 0, 0, 39999));
    add_in_place(tail, slice(y, 0, 0, 39999), scale);
    CHECK(elements(tail) == elements(sums));
  }
}

TEST_CASE("concat, pad, gather and scatter_add give what plain loops give on long and on strided inputs") {
  for (DType dtype : kFloatTypes)
    for (const Tensor& x : {random({3, kMany}, 1, dtype), transpose(random({kMany, 3}, 2, dtype)),
                            flip(random({kMany, 3}, 3, dtype), {0, 1})}) {
      const int64_t rows = x.size(0), columns = x.size(1);
      const V from = elements(x);
      const auto at = [&](int64_t r, int64_t c) { return from[static_cast<size_t>(r * columns + c)]; };
      const Tensor numbers = arange(0, static_cast<double>(columns));
      const Tensor index = expand(flip(numbers, {0}), x.shape());
      V joined, padded, gathered, added;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          gathered.push_back(at(r, columns - 1 - c));
          added.push_back(at(r, c) + at(r, columns - 1 - c));
        }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < 2 * columns; ++c) joined.push_back(at(r, c % columns));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = -3; c < columns + 2; ++c) padded.push_back(c < 0 || c >= columns ? 5 : at(r, c));
      CHECK(elements(concat({x, x}, 1)) == joined);
      CHECK(elements(pad(x, {0, 3}, {0, 2}, PadMode::constant, 5)) == padded);
      CHECK(elements(gather(x, 1, index)) == gathered);
      CHECK(vitrine::distance(elements(scatter_add(x, 1, index, x)), added, 1e-3) <= epsilon(dtype));
      CHECK(same_on_any_threads([&] {
        return std::vector<Tensor>{concat({x, x}, 1), pad(x, {0, 3}, {0, 2}), gather(x, 1, index),
                                   scatter_add(x, 1, index, x)};
      }));
    }
}

}  // namespace vitrine::test
