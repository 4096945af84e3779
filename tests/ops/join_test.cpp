#include "ops/join.h"

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

const Tensor kMatrix = tensor({1, 2, 3, 4, 5, 6}, {2, 3});

TEST_CASE("concat joins along an axis, promotes dtypes and takes views and empty parts") {
  const Tensor y = concat({kMatrix, tensor({7, 8}, {2, 1}, DType::float64)}, 1);
  CHECK(y.dtype() == DType::float64);
  CHECK(y.values() == V{1, 2, 3, 7, 4, 5, 6, 8});
  CHECK(concat({kMatrix, kMatrix}, -2).values() == V{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(concat({transpose(kMatrix), empty({3, 0}), slice(transpose(kMatrix), 1, 1)}, 1).values() ==
        V{1, 4, 4, 2, 5, 5, 3, 6, 6});
  CHECK(concat({empty({0, 2}), empty({0, 2})}).shape() == Shape{0, 2});
}

TEST_CASE("stack makes a new axis anywhere") {
  const Tensor x = tensor({1, 2}), y = tensor({3, 4});
  CHECK(stack({x, y}).values() == V{1, 2, 3, 4});
  CHECK(stack({x, y}, 1).values() == V{1, 3, 2, 4});
  CHECK(stack({x, y}, -1).values() == V{1, 3, 2, 4});
  CHECK(stack({Tensor(1.0), Tensor(2.0)}).values() == V{1, 2});
}

TEST_CASE("pad adds constants, reflections, edges or wraps around") {
  const Tensor x = tensor({1, 2, 3});
  CHECK(pad(x, {2}, {1}, PadMode::constant, 9).values() == V{9, 9, 1, 2, 3, 9});
  CHECK(pad(x, {2}, {2}, PadMode::reflect).values() == V{3, 2, 1, 2, 3, 2, 1});
  CHECK(pad(x, {2}, {1}, PadMode::edge).values() == V{1, 1, 1, 2, 3, 3});
  CHECK(pad(x, {2}, {3}, PadMode::wrap).values() == V{2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(pad(kMatrix, {1, 0}, {0, 1}).values() == V{0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6, 0});
  CHECK(pad(kMatrix, {0, 1}, {1, 0}, PadMode::reflect).values() == V{2, 1, 2, 3, 5, 4, 5, 6, 2, 1, 2, 3});
  CHECK(pad(transpose(kMatrix), {0, 0}, {0, 1}).values() == V{1, 4, 0, 2, 5, 0, 3, 6, 0});
  CHECK(pad(empty({0}), {1}, {1}).values() == V{0, 0});
  CHECK(pad(tensor({1, 2}, DType::int64), {1}, {0}, PadMode::constant, 7).values() == V{7, 1, 2});
}

TEST_CASE("tile repeats the whole, repeat each element") {
  CHECK(tile(kMatrix, {2, 2}).values() ==
        V{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  CHECK(tile(tensor({1, 2}), {2, 1}).values() == V{1, 2, 1, 2});
  CHECK(tile(tensor({1, 2}), {2, 1}).shape() == Shape{2, 2});
  CHECK(tile(kMatrix, {2}).shape() == Shape{2, 6});
  CHECK(tile(kMatrix, {0, 1}).shape() == Shape{0, 3});
  CHECK(repeat(kMatrix, 2, 0).values() == V{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  CHECK(repeat(kMatrix, 2, -1).values() == V{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  CHECK(repeat(kMatrix, 0, 1).shape() == Shape{2, 0});
  CHECK(repeat(transpose(kMatrix), 2, 1).values() == V{1, 1, 4, 4, 2, 2, 5, 5, 3, 3, 6, 6});
  CHECK(repeat(empty({0, 3}), 2, 1).shape() == Shape{0, 6});
  // The largest possible number of axes.
  const Tensor most = reshape(kMatrix, {1, 1, 1, 2, 1, 3, 1, 1});
  CHECK(repeat(most, 2, 5).values() == V{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  CHECK(tile(most, {2, 1, 1}).values() == tile(kMatrix, {1, 2}).values());
  CHECK(tile(most, {2, 1, 1}).shape() == Shape{1, 1, 1, 2, 1, 6, 1, 1});
}

TEST_CASE("tril and triu keep a triangle; what they drop may be infinite") {
  const Tensor x = tensor({1, INFINITY, 3, 4, 5, 6}, {2, 3});
  CHECK(tril(x).values() == V{1, 0, 0, 4, 5, 0});
  CHECK(tril(x, -1).values() == V{0, 0, 0, 4, 0, 0});
  CHECK(triu(kMatrix, 1).values() == V{0, 2, 3, 0, 0, 6});
  CHECK(tril(kMatrix, INT64_MAX).values() == kMatrix.values());
  CHECK(triu(kMatrix, INT64_MAX).values() == V(6, 0));
  CHECK(tril(kMatrix, INT64_MIN).values() == V(6, 0));
  CHECK(triu(kMatrix, INT64_MIN).values() == kMatrix.values());
  CHECK(triu(ones({2, 3, 3}, DType::boolean)).dtype() == DType::boolean);
  CHECK(sum(triu(ones({2, 3, 3}, DType::int64))).item() == 12);
}

TEST_CASE("gradients match differences to the third order") {
  const Tensor x = random({2, 3}, 1), y = random({2, 2}, 2);
  const auto cube = [](const Tensor& t) { return pow(t, 3); };
  CHECK(gradient_error([&](const auto& v) { return cube(concat({v[0], v[1], v[0]}, 1)); }, {x, y}, 3) < 1e-6);
  CHECK(gradient_error([&](const auto& v) { return cube(stack({v[0], v[0]}, 1)); }, {x}) < 1e-6);
  for (PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::edge, PadMode::wrap})
    CHECK(gradient_error(
              [&](const auto& v) {
                return cube(pad(v[0], {1, 2}, {0, 1}, mode, 0.5));
              },
              {x}, 3) < 1e-6);
  CHECK(gradient_error([&](const auto& v) { return cube(tile(v[0], {2, 1, 3})); }, {x}) < 1e-6);
  CHECK(gradient_error([&](const auto& v) { return cube(repeat(v[0], 3, 0)); }, {x}) < 1e-6);
  CHECK(gradient_error([&](const auto& v) { return cube(tril(v[0], 1)); }, {x}) < 1e-6);
}

TEST_CASE("the gradient of a joined input has that input's dtype") {
  Tape tape;
  const Tensor x = tape.watch(ones({2}, DType::bfloat16)), y = tape.watch(ones({3}));
  const auto dx = tape.gradient(sum(concat({x, y})), {x, y});
  CHECK(dx[0].dtype() == DType::bfloat16);
  CHECK(dx[0].values() == V{1, 1});
  CHECK(dx[1].values() == V{1, 1, 1});
}

TEST_CASE("errors name the op, the axis and the shapes") {
  const Tensor x = empty({2, 3});
  CHECK(error_of([] { concat({}); }) == "concat: there are no tensors to join");
  CHECK(error_of([&] {
          concat({x, empty({3, 3})}, 1);
        }) == "concat: the shapes [2, 3] and [3, 3] differ in more than the size of axis 1");
  CHECK(error_of([&] {
          concat({x, empty({2})}, 1);
        }).starts_with("concat: the shapes [2, 3] and [2] differ"));
  CHECK(error_of([&] { concat({x}, 2); }).starts_with("concat: axis 2"));
  CHECK(error_of([&] { stack({x, empty({2})}); }) == "stack: the shapes [2, 3] and [2] differ");
  CHECK(error_of([&] { pad(x, {1}, {1}); }) ==
        "pad: before has 1 entries and after 1, wanted one for each of the 2 axes of x");
  CHECK(error_of([&] { pad(x, {-1, 0}, {0, 0}); }) == "pad: an amount is -1, wanted at least 0");
  CHECK(error_of([&] {
          pad(x, {2, 0}, {0, 0}, PadMode::reflect);
        }) == "pad: axis 0 of [2, 3] has too few elements for 2 before and 0 after by reflection");
  CHECK(error_of([&] {
          pad(empty({0}), {1}, {0}, PadMode::edge);
        }).starts_with("pad: axis 0 of [0] has too few elements"));
  CHECK(error_of([&] { tile(x, {-1}); }) == "tile: times[0] is -1, wanted at least 0");
  CHECK(error_of([&] { repeat(x, -2, 0); }) == "repeat: times is -2, wanted at least 0");
  CHECK(error_of([&] { tril(empty({3})); }) == "tril: x has the shape [3], wanted at least two axes");
}

}  // namespace
}  // namespace vitrine::test
