#include "ops/sort.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

TEST_CASE("sort is stable in both directions and puts NaN last") {
  const Tensor x = tensor({3, kNan, 1, 3, -INFINITY, 1});
  const Sorted up = sort(x), down = sort(x, 0, true);
  CHECK(up.indices.values() == V{4, 2, 5, 0, 3, 1});
  CHECK(down.indices.values() == V{0, 3, 2, 5, 4, 1});
  CHECK(distance(up.values, tensor({-INFINITY, 1, 1, 3, 3, kNan})) == 0);
  CHECK(up.indices.dtype() == DType::int64);
}

TEST_CASE("sort works along any axis, on views and integers") {
  const Tensor x = tensor({3, 1, 2, 0, 5, 4}, {2, 3}, DType::int32);
  CHECK(sort(x, 0).values.values() == V{0, 1, 2, 3, 5, 4});
  CHECK(sort(x, 0).indices.values() == V{1, 0, 0, 0, 1, 1});
  CHECK(sort(x).values.values() == V{1, 2, 3, 0, 4, 5});
  CHECK(sort(transpose(x), 1, true).values.values() == V{3, 0, 5, 1, 4, 2});
  CHECK(sort(empty({0, 3}), 0).values.shape() == Shape{0, 3});
  CHECK(sort(empty({2, 0})).indices.shape() == Shape{2, 0});
}

TEST_CASE("topk gives the k largest or smallest in order, the earlier of equals first") {
  const Tensor x = tensor({2, 7, 7, kNan, 1, 7}, {1, 6}, DType::float64);
  CHECK(topk(x, 4).indices.values() == V{1, 2, 5, 0});
  CHECK(topk(x, 2, 1, false).indices.values() == V{4, 0});
  CHECK(topk(x, 2, 1, false).values.values() == V{1, 2});
  CHECK(topk(x, 0).values.shape() == Shape{1, 0});
  CHECK(topk(x, 1, 0).values.shape() == Shape{1, 6});
  const Tensor y = random({7, 1000}, 1, DType::float32);
  CHECK(distance(topk(y, 10).values, slice(sort(y, 1, true).values, 1, 0, 10)) == 0);
}

TEST_CASE("gradients go back to where the values came from, to the third order") {
  const Tensor x = random({3, 5}, 2);
  CHECK(gradient_error([](const auto& v) { return pow(sort(v[0], 0).values, 3); }, {x}, 3) < 1e-6);
  CHECK(gradient_error([](const auto& v) { return pow(topk(v[0], 2).values, 3); }, {x}, 3) < 1e-6);
}

TEST_CASE("the result does not depend on the number of threads") {
  const Tensor x = random({100, 500}, 7, DType::float32);
  CHECK(same_on_any_threads([&] { return std::vector<Tensor>{sort(x).values, topk(x, 7, 0).indices}; }));
}

TEST_CASE("errors name the axis and k") {
  const Tensor x = ones({2, 3});
  CHECK(error_of([&] { topk(x, 4); }) == "topk: k is 4, wanted 0 to 3, the size of axis 1 of [2, 3]");
  CHECK(error_of([&] { topk(x, -1); }).starts_with("topk: k is -1"));
  CHECK(error_of([&] { sort(x, 2); }).starts_with("sort: axis 2"));
  CHECK(error_of([] { sort(Tensor(1.0)); }).starts_with("sort: axis -1"));
}

}  // namespace
}  // namespace vitrine::test
