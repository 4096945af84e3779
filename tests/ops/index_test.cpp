#include "ops/index.h"

#include <cmath>

#include "core/parameter.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

Tensor integers(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::int64) {
  return tensor(values, shape, dtype);
}

TEST_CASE("gather reads along an axis by index, from views too") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(gather(x, 1, integers({2, 0, -1, 1}, {2, 2})).values() == V{3, 1, 6, 5});
  CHECK(gather(x, 0, integers({1, 0, 1}, {1, 3})).values() == V{4, 2, 6});
  CHECK(gather(x, -1, integers({0}, {1, 1}, DType::int32)).values() == V{1});
  CHECK(gather(transpose(x), 0, integers({2, 1, 0, 0}, {2, 2})).values() == V{3, 5, 1, 4});
  CHECK(gather(cast(x, DType::int64), 1, integers({1}, {1, 1})).dtype() == DType::int64);
  CHECK(gather(x, 1, empty({2, 0}, DType::int64)).shape() == Shape{2, 0});
}

TEST_CASE("scatter_add adds equal indices up, in float32 for the 16-bit types") {
  const Tensor x = ones({2, 3});
  CHECK(scatter_add(x, 1, integers({0, 0, 2, -1}, {2, 2}), tensor({1, 2, 3, 4}, {2, 2})).values() ==
        V{4, 1, 1, 1, 1, 8});
  CHECK(scatter_add(x, 0, integers({1, 1, 1}, {1, 3}), tensor({1, 2, 3}, {1, 3})).values() ==
        V{1, 1, 1, 2, 3, 4});
  CHECK(x.values() == V(6, 1));
  const Tensor many =
      scatter_add(zeros({1}, DType::bfloat16), 0, zeros({1000}, DType::int64), ones({1000}, DType::bfloat16));
  CHECK(many.item() == 1000);  // adding 1 to a bfloat16 stops at 256
}

TEST_CASE("scatter_add of random indices equals a loop") {
  Generator generator(1);
  const Tensor x = random({5, 6, 4}, 2), source = random({3, 9, 2}, 3),
               index = randint(-6, 6, {3, 9, 2}, Device::cpu, generator);
  Tensor want = copy_as(x, DType::float64);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 9; ++j)
      for (int64_t k = 0; k < 2; ++k) {
        const int64_t at = (i * 9 + j) * 2 + k, place = (index.data<int64_t>()[at] + 6) % 6;
        want.data<double>()[(i * 6 + place) * 4 + k] += source.data<double>()[at];
      }
  CHECK(distance(scatter_add(x, 1, index, source), want) < 1e-15);
}

TEST_CASE("index_select takes slices along any axis, for indices of any shape") {
  const Tensor x = random({3, 4, 2}, 4);
  const Tensor index = integers({2, 0, -1, 1, 1, 0}, {2, 3});
  for (int axis = 0; axis < 3; ++axis) {
    const Tensor safe = axis == 2 ? where(greater(index, ones_like(index)), index - 1, 0.0) : index;
    const Tensor y = index_select(x, axis, safe);
    Shape shape = x.shape();
    shape.erase(axis);
    shape.insert(axis, 3);
    shape.insert(axis, 2);
    REQUIRE(y.shape() == shape);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        const auto place = static_cast<int64_t>(safe.values()[static_cast<size_t>(3 * i + j)]);
        CHECK(distance(select(select(y, axis, i), axis, j), select(x, axis, place)) == 0);
      }
  }
  CHECK(index_select(x, 1, integers({3}, {})).shape() == Shape{3, 2});
  CHECK(index_select(x, 0, empty({0}, DType::int64)).shape() == Shape{0, 4, 2});
}

TEST_CASE("embedding looks up rows; its gradient adds repeated rows, in float32 for a 16-bit leaf") {
  const Tensor table = random({7, 3}, 5, DType::bfloat16).requires_grad();
  const Tensor ids = integers({6, 0, 6, 2}, {2, 2}, DType::int32);
  Tape tape;
  const Tensor y = embedding(table, ids);
  REQUIRE(y.shape() == Shape{2, 2, 3});
  CHECK(distance(select(select(y, 0, 1), 0, 0), select(table, 0, 6)) == 0);
  tape.backward(sum(cast(y, DType::float32)));
  CHECK(table.grad().dtype() == DType::float32);
  CHECK(table.grad().values() == V{1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2});
}

TEST_CASE("a gradient in 16 bits sums the uses of a row in float32, and rounds once") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const Tensor x = zeros({3, 70}, dtype), uses = zeros({1000}, DType::int64);
    Tape tape;
    tape.watch(x);
    const Tensor gradient = tape.gradient(sum(index_select(x, 0, uses)), {x})[0];
    CHECK(gradient.dtype() == dtype);
    for (const double element : select(gradient, 0, 0).values()) CHECK(element == 1000);
    for (const double element : slice(gradient, 0, 1).values()) CHECK(element == 0);
  }
  Parameter table(zeros({4, 8}));
  table.to(DType::bfloat16);
  table.gradients_in(DType::bfloat16);
  Tape tape;
  tape.backward(sum(embedding(table, zeros({1000}, DType::int64))));
  for (const double element : select(table.grad(), 0, 0).values()) CHECK(element == 1000);
}

TEST_CASE("one_hot marks the index along a new last axis") {
  CHECK(one_hot(integers({2, 0}, {2}), 3).values() == V{0, 0, 1, 1, 0, 0});
  CHECK(one_hot(integers({1}, {}), 2, DType::boolean).dtype() == DType::boolean);
  CHECK(one_hot(empty({0, 2}, DType::int64), 3).shape() == Shape{0, 2, 3});
}

TEST_CASE("gradients match differences to the third order") {
  const Tensor x = random({3, 4}, 6), source = random({2, 5}, 7);
  const Tensor index = integers({0, 3, 3, -1, 1, 2, 2, 0, 0, 0}, {2, 5});
  // The cube makes the derivatives of a linear op depend on x.
  CHECK(gradient_error([&](const auto& v) { return pow(gather(v[0], 1, index), 3); }, {x}, 3) < 1e-6);
  CHECK(gradient_error([&](const auto& v) { return pow(scatter_add(v[0], 1, index, v[1]), 3); }, {x, source},
                       3) < 1e-6);
  CHECK(gradient_error(
            [&](const auto& v) {
              return pow(index_select(v[0], 1, integers({1, 1, 3}, {3})), 3);
            },
            {x}, 3) < 1e-6);
  CHECK(gradient_error(
            [&](const auto& v) {
              return pow(embedding(v[0], integers({2, 2, 0}, {3, 1})), 3);
            },
            {x}, 3) < 1e-6);
  CHECK(gradient_error(
            [&](const auto& v) {
              return pow(embedding(transpose(v[0]), integers({3, 0}, {2})), 3);
            },
            {x}) < 1e-6);
}

TEST_CASE("results do not depend on the number of threads") {
  Generator generator(8);
  const Tensor x = random({50, 300}, 9, DType::float32),
               index = randint(0, 50, {2000, 300}, Device::cpu, generator);
  const Tensor source = random({2000, 300}, 10, DType::float32),
               ids = randint(0, 50, {3000}, Device::cpu, generator);
  CHECK(same_on_any_threads([&] {
    return std::vector<Tensor>{gather(x, 0, index), scatter_add(x, 0, index, source),
                               gradients([&](const auto& v) { return embedding(v[0], ids); }, {x})[0]};
  }));
}

TEST_CASE("errors name the index, its position and the range") {
  const Tensor x = empty({2, 3});
  CHECK(error_of([&] {
          gather(x, 1, integers({0, 3}, {1, 2}));
        }) == "gather: index has 3 at position 1, outside [-3, 3)");
  CHECK(error_of([&] {
          gather(x, 0, integers({-3}, {1, 1}));
        }) == "gather: index has -3 at position 0, outside [-2, 2)");
  CHECK(error_of([&] {
          gather(x, 1, integers({0}, {1}));
        }).starts_with("gather: index has the shape [1], wanted the rank of x [2, 3]"));
  CHECK(error_of([&] {
          gather(x, 1, zeros({3, 1}, DType::int64));
        }).starts_with("gather: index has the shape [3, 1]"));
  CHECK(error_of([&] { gather(x, 2, zeros({1, 1}, DType::int64)); }).starts_with("gather: axis 2"));
  CHECK(error_of([&] {
          gather(x, 1, zeros({1, 1}));
        }) == "gather: index is float32[1, 1] on cpu, wanted int64, int32 or uint8");
  CHECK(error_of([&] {
          scatter_add(x, 1, zeros({1, 1}, DType::int64), zeros({1, 2}));
        }).starts_with("scatter_add: source has the shape [1, 2]"));
  CHECK(error_of([&] {
          scatter_add(x, 1, zeros({1, 1}, DType::int64), zeros({1, 1}, DType::float64));
        }).starts_with("scatter_add: source is float64[1, 1]"));
  CHECK(error_of([&] {
          embedding(x, integers({5, 70}, {2}));
        }) == "embedding: ids has 5 at position 0, outside [0, 2)");
  CHECK(error_of([&] { embedding(x, integers({-1}, {1})); }) ==
        "embedding: ids has -1 at position 0, outside [0, 2)");
  CHECK(error_of([&] { embedding(empty({2}), integers({0}, {1})); }) ==
        "embedding: table has the shape [2], wanted [V, C]");
  CHECK(error_of([&] { index_select(x, 1, integers({4}, {1})); }) ==
        "index_select: index has 4 at position 0, outside [-3, 3)");
  CHECK(error_of([&] { one_hot(integers({-1}, {1}), 3); }) ==
        "one_hot: index has -1 at position 0, outside [0, 3)");
}

}  // namespace
}  // namespace vitrine::test
