// Convolutions against a plain loop, for every combination of options.
#include "ops/convolution.h"

#include <doctest/doctest.h>

#include <vector>

#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/plain.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::distance;

namespace {

Windows windows_of(const Tensor& x, const Tensor& weight, const Conv2dOptions& o) {
  return {.rows = window_axis("test", "rows", x.size(2), weight.size(2), o.stride.rows, o.padding.rows,
                              o.dilation.rows),
          .columns = window_axis("test", "columns", x.size(3), weight.size(3), o.stride.columns,
                                 o.padding.columns, o.dilation.columns)};
}

Tensor plain_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  const Windows w = windows_of(x, weight, o);
  Tensor y = empty({x.size(0), weight.size(0), w.rows.count, w.columns.count}, DType::float64);
  plain::convolution(y, x, weight, w);
  return y + reshape(bias, {bias.size(0), 1, 1});
}

/// The result and the gradients of x, weight and bias.
std::vector<Tensor> run(const std::vector<Tensor>& xs, const Conv2dOptions& o, const Tensor& dy,
                        decltype(conv2d)& f) {
  Tape tape;
  for (const Tensor& x : xs) tape.watch(x);
  const Tensor y = f(xs[0], xs[1], xs[2], o);
  std::vector<Tensor> all = tape.gradient({y}, xs, {cast(dy, y.dtype())});
  all.push_back(y);
  return all;
}

/// The largest error of the result, against the plain loop, and of the gradients, against those of
/// the definition, in units of the dtype's epsilon.
double error(const Shape& x, const Shape& weight, const Conv2dOptions& o, DType dtype = DType::float64) {
  std::vector<Tensor> wide = {test::random(x, 1), test::random(weight, 2), test::random({weight[0]}, 3)}, xs;
  for (Tensor& t : wide) xs.push_back(cast(t, dtype)), t = cast(xs.back(), DType::float64);
  const Tensor y = plain_conv2d(wide[0], wide[1], wide[2], o);
  const Tensor dy = cast(cast(test::random(y.shape(), 4), dtype), DType::float64);
  const std::vector<Tensor> got = run(xs, o, dy, conv2d), want = run(wide, o, dy, define::conv2d);
  double largest = distance(cast(got[3], DType::float64), y);
  for (size_t i = 0; i < 3; ++i) largest = std::max(largest, distance(cast(got[i], DType::float64), want[i]));
  return largest / epsilon(dtype);
}

}  // namespace

TEST_CASE("every stride, padding, dilation and grouping gives what a plain loop gives") {
  const PerAxis<Padding> paddings[] = {0, {{0, 2}, {1, 0}}, 2};
  int count = 0;
  for (const PerAxis<int64_t>& stride : {PerAxis<int64_t>(1), PerAxis<int64_t>(2), PerAxis<int64_t>(1, 3)})
    for (const PerAxis<Padding>& padding : paddings)
      for (const PerAxis<int64_t>& dilation : {PerAxis<int64_t>(1), PerAxis<int64_t>(2, 1)})
        for (const int64_t groups : {1, 2, 4})
          for (const Shape& kernel : {Shape{1, 1}, Shape{2, 3}, Shape{3, 3}})
            for (const int64_t outputs : {4, 8}) {
              const Conv2dOptions o{stride, padding, dilation, groups};
              INFO("number ", count, ", groups ", groups, ", kernel ", to_string(kernel));
              CHECK(error({2, 4, 5, 6}, {outputs, 4 / groups, kernel[0], kernel[1]}, o) < 32);
              ++count;
            }
  CHECK(count == 324);
}

TEST_CASE("windows in several blocks, of one image and of several, give what a plain loop gives") {
  // 37·41 windows of an image are more than a block, which then ends within a row. 45 images of 7·5
  // windows are two blocks.
  CHECK(error({2, 32, 37, 41}, {4, 32, 3, 3}, {.padding = 1}) < 64);
  CHECK(error({2, 64, 66, 34}, {4, 32, 3, 3}, {.stride = {1, 2}, .padding = {1, 0}, .groups = 2}) < 64);
  CHECK(error({45, 64, 7, 5}, {6, 64, 3, 3}, {.padding = 1}) < 64);
  CHECK(error({45, 64, 7, 5}, {6, 64, 1, 1}, {}) < 64);
  CHECK(error({1, 64, 1, 1500}, {3, 64, 1, 5}, {.padding = {0, 2}}) < 64);
  CHECK(error({1, 600, 1, 1100}, {2, 600, 1, 1}, {}) < 64);
  CHECK(error({3, 5, 19, 70}, {5, 1, 3, 4}, {.padding = {{2, 0}, {0, 3}}, .groups = 5}) < 64);
}

TEST_CASE("float32 and the 16-bit types are rounded once") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    INFO(name(dtype));
    const double limit = dtype == DType::float32 ? 8 : 1;
    CHECK(error({25, 16, 9, 8}, {6, 16, 3, 3}, {.padding = 1}, dtype) < limit);
    CHECK(error({4, 6, 17, 20}, {6, 1, 3, 5}, {.padding = 1, .groups = 6}, dtype) < limit);
    CHECK(error({4, 6, 17, 20}, {6, 1, 3, 5}, {.stride = 2, .groups = 6}, dtype) < limit);
  }
}

TEST_CASE("the bits of a convolution and of its gradients do not depend on the number of threads") {
  const auto same = [](const Shape& x, const Shape& weight, const Conv2dOptions& o) {
    const std::vector<Tensor> xs = {test::random(x, 1, DType::float32),
                                    test::random(weight, 2, DType::float32),
                                    test::random({weight[0]}, 3, DType::float32)};
    const Tensor dy = test::random(conv2d(xs[0], xs[1], xs[2], o).shape(), 4, DType::float32);
    return test::same_on_any_threads([&] { return run(xs, o, dy, conv2d); });
  };
  CHECK(same({2, 32, 40, 38}, {24, 32, 3, 3}, {.padding = 1}));
  CHECK(same({45, 64, 7, 5}, {48, 32, 3, 3}, {.groups = 2}));
  CHECK(same({3, 40, 30, 31}, {40, 1, 3, 3}, {.padding = 1, .groups = 40}));
}

TEST_CASE("a kernel of one tap is a linear layer") {
  const Tensor x = test::random({2, 5, 7}, 1), weight = test::random({3, 5, 1}, 2),
               bias = test::random({3}, 3);
  CHECK(distance(transpose(conv1d(x, weight, bias)), linear(transpose(x), squeeze(weight, {2}), bias)) <
        1e-14);
}

TEST_CASE("the kernel is not flipped, and a position after the image counts as zero") {
  const Tensor x = tensor({1, 2, 3}, {1, 1, 3}, DType::float64),
               weight = tensor({1, 10}, {1, 1, 2}, DType::float64);
  CHECK(conv1d(x, weight).values() == std::vector<double>{21, 32});
  CHECK(conv1d(x, weight, {}, {.padding = {0, 1}}).values() == std::vector<double>{21, 32, 3});
  CHECK(conv1d(x, weight, {}, {.padding = {1, 0}}).values() == std::vector<double>{10, 21, 32});
  CHECK(conv1d(x, weight, {}, {.padding = 1, .dilation = 2}).values() == std::vector<double>{20, 31, 2});
  CHECK(conv1d(x, weight, tensor({5}, {1}, DType::float64), {.stride = 2}).values() ==
        std::vector<double>{26});
}

TEST_CASE("an empty batch gives an empty result, and its gradients are zero") {
  for (const int64_t groups : {1, 4}) {
    const std::vector<Tensor> xs = {zeros({0, 4, 5, 6}, DType::float64),
                                    test::random({4, 4 / groups, 3, 3}, 1), test::random({4}, 2)};
    const auto all = run(xs, {.groups = groups}, zeros({0, 4, 3, 4}, DType::float64), conv2d);
    CHECK(all[3].shape() == Shape{0, 4, 3, 4});
    for (size_t i = 1; i < 3; ++i) CHECK(max(abs(all[i])).item() == 0);
  }
  CHECK(conv1d(zeros({2, 3, 0}), ones({4, 3, 5}), {}, {.padding = 4}).shape() == Shape{2, 4, 0});
}

TEST_CASE("a causal convolution continued from its state is the whole convolution, and sees no future") {
  for (const int64_t kernel : {1, 2, 4}) {
    INFO("kernel ", kernel);
    const Tensor x = test::random({2, 7, 3}, 1), weight = test::random({3, kernel}, 2),
                 bias = test::random({3}, 3);
    const Tensor whole = causal_conv1d(x, weight, bias);
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1}, {2, 0, 5}, {6, 1}}) {
      Tensor state;
      std::vector<Tensor> parts;
      int64_t begin = 0;
      for (const int64_t length : lengths) {
        const Tensor part = slice(x, 1, begin, begin + length);
        parts.push_back(causal_conv1d(part, weight, bias, state));
        state = causal_conv1d_state(part, kernel, state);
        CHECK(state.shape() == Shape{2, kernel - 1, 3});
        begin += length;
      }
      CHECK(distance(concat(parts, 1), whole) < 1e-14);
    }
    const Tensor changed = concat({slice(x, 1, 0, 4), slice(x, 1, 4) + 1}, 1);
    const Tensor y = causal_conv1d(changed, weight, bias);
    CHECK(distance(slice(y, 1, 0, 4), slice(whole, 1, 0, 4)) == 0);
    CHECK(distance(slice(y, 1, 4), slice(whole, 1, 4)) > 0.01);
  }
}

TEST_CASE("numbers so large that sums of them overflow are errors") {
  const Tensor x = ones({1, 1, 8}, DType::float32), w = ones({1, 1, 9}, DType::float32);
  for (const Conv1dOptions& o :
       {Conv1dOptions{.dilation = int64_t{1} << 61}, Conv1dOptions{.padding = int64_t{1} << 62}})
    CHECK_THROWS_WITH_AS(conv1d(x, w, {}, o), doctest::Contains("is too large"), Error);
}

TEST_CASE("errors name the op, what was wanted and what came") {
  const Tensor x = zeros({2, 4, 5, 6}), weight = zeros({6, 4, 3, 3});
  const auto message = [&](const Tensor& w, const Tensor& bias, const Conv2dOptions& o) {
    return test::error_of([&] { conv2d(x, w, bias, o); });
  };
  CHECK(message(zeros({6, 4, 3}), {}, {}) == "conv2d: weight is [6, 4, 3], wanted [O, C/groups, K, K]");
  CHECK(message(weight, {}, {.groups = 3}) == "conv2d: 4 channels and 6 outputs do not divide into 3 groups");
  CHECK(message(weight, {}, {.groups = 2}) ==
        "conv2d: x is [2, 4, 5, 6] and weight is [6, 4, 3, 3]: wanted weights of 2 channels for 2 groups");
  CHECK(message(weight, zeros({4}), {}) == "conv2d: bias is [4], wanted [6]");
  CHECK(message(weight, {}, {.stride = {1, 0}}) == "conv2d: the stride of columns is 0, wanted at least 1");
  CHECK(message(weight, {}, {.padding = {{0, -1}, 0}}) ==
        "conv2d: the padding of rows is (0, -1), wanted at least 0");
  CHECK(message(weight, {}, {.dilation = 3}) == "conv2d: a window has 7 rows, and x has 5 with its padding");
  CHECK(message(zeros({6, 4, 0, 3}), {}, {}) == "conv2d: the kernel has 0 rows, wanted at least 1");
  CHECK(test::error_of([] {
          conv1d(zeros({2, 3}), zeros({1, 3, 1}));
        }) == "conv1d: x is [2, 3], wanted [N, C, T]");
  CHECK(test::error_of([] {
          conv1d(zeros({1, 1, 4}), zeros({1, 1, 5}));
        }) == "conv1d: a window has 5 positions, and x has 4 with its padding");
  CHECK(test::error_of([] {
          causal_conv1d(zeros({2, 5, 3}), zeros({4, 2}));
        }) == "causal_conv1d: x is [2, 5, 3] and weight is [4, 2], wanted [B, T, C] and [C, K]");
  CHECK(test::error_of([] {
          causal_conv1d(zeros({2, 5, 3}), zeros({3, 4}), {}, zeros({2, 4, 3}));
        }) == "causal_conv1d: state is [2, 4, 3], wanted [2, 3, 3]");
}
