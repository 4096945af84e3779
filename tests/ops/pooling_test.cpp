#include "ops/pooling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::distance;

namespace {

Tensor sequence(const std::vector<double>& values) {
  return tensor(values, {1, 1, static_cast<int64_t>(values.size())}, DType::float64);
}

/// The gradient of x where the gradients of the windows are 1, 2, 3, …
std::vector<double> gradient(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  Tape tape;
  tape.watch(x);
  const Tensor y = f(x);
  const Tensor dy = reshape(arange(1, static_cast<double>(y.numel() + 1), 1, DType::float64), y.shape());
  return tape.gradient({y}, {x}, {dy})[0].values();
}

/// Windows by a loop: the largest element, or the sum and the number of taps that count.
Tensor plain_pool(const Tensor& x, const Shape& kernel, const Pool2dOptions& o, bool average) {
  const auto axis = [&](int64_t size, int64_t taps, int64_t stride, const Padding& padding,
                        int64_t dilation) {
    return window_axis("test", "rows", size, taps, stride, padding, dilation, o.last);
  };
  const WindowAxis rows = axis(x.size(2), kernel[0], o.stride.rows, o.padding.rows, o.dilation.rows),
                   columns =
                       axis(x.size(3), kernel[1], o.stride.columns, o.padding.columns, o.dilation.columns);
  const auto padded = [](const WindowAxis& a, const Padding& p, int64_t at) {
    return at >= -p.before && at < a.size + p.after;
  };
  const auto values = x.values();
  std::vector<double> y;
  for (int64_t n = 0; n < x.size(0) * x.size(1); ++n)
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t column = 0; column < columns.count; ++column) {
        double best = -test::kInfinity, sum = 0, count = 0;
        for (int64_t i = 0; i < kernel[0]; ++i)
          for (int64_t j = 0; j < kernel[1]; ++j) {
            const int64_t h = rows.element(row, i), v = columns.element(column, j);
            const bool inside = rows.holds(h) && columns.holds(v);
            if (inside ||
                (o.count_padding && padded(rows, o.padding.rows, h) && padded(columns, o.padding.columns, v)))
              ++count;
            if (!inside) continue;
            const double value = values[static_cast<size_t>((n * rows.size + h) * columns.size + v)];
            best = std::max(best, value), sum += value;
          }
        y.push_back(average ? sum / count : best);
      }
  return tensor(y, {x.size(0), x.size(1), rows.count, columns.count}, DType::float64);
}

}  // namespace

TEST_CASE("every stride, padding, dilation and last window gives what a plain loop gives") {
  const Tensor x = test::random({2, 3, 7, 8}, 1);
  int count = 0;
  for (const PerAxis<int64_t>& stride : {PerAxis<int64_t>(1), PerAxis<int64_t>(2, 3)})
    for (const PerAxis<Padding>& padding :
         {PerAxis<Padding>(0), PerAxis<Padding>({1, 0}, {0, 1}), PerAxis<Padding>(1)})
      for (const PerAxis<int64_t>& dilation : {PerAxis<int64_t>(1), PerAxis<int64_t>(1, 2)})
        for (const LastWindow last : {LastWindow::whole, LastWindow::partial})
          for (const bool count_padding : {false, true})
            for (const Shape& kernel : {Shape{2, 2}, Shape{3, 2}}) {
              const Pool2dOptions o{stride, padding, dilation, last, count_padding};
              ++count;
              INFO("number ", count);
              CHECK(distance(max_pool2d(x, {kernel[0], kernel[1]}, o), plain_pool(x, kernel, o, false)) == 0);
              CHECK(distance(define::max_pool2d(x, {kernel[0], kernel[1]}, o),
                             plain_pool(x, kernel, o, false)) == 0);
              CHECK(distance(avg_pool2d(x, {kernel[0], kernel[1]}, o), plain_pool(x, kernel, o, true)) <
                    1e-14);
            }
  CHECK(count == 96);
}

TEST_CASE("the first of equal elements gets the gradient, and padding is never chosen") {
  const Tensor x = sequence({-2, -2, -5, -2});
  const auto pool = [](const Tensor& t) { return max_pool1d(t, 2, {.stride = 1, .padding = 1}); };
  CHECK(pool(x).values() == std::vector<double>{-2, -2, -2, -2, -2});
  CHECK(gradient(x, pool) == std::vector<double>{1 + 2, 3, 0, 4 + 5});
  CHECK(gradient(sequence({-test::kInfinity}), pool) == std::vector<double>{1 + 2});
}

TEST_CASE("NaN is the largest element; a window of only padding is −∞ and has no gradient") {
  const Tensor x = sequence({1, NAN, 3, 4});
  const auto y = max_pool1d(x, 2).values();
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 4);
  const auto apart = [](const Tensor& t) {
    return max_pool1d(t, 2, {.stride = 1, .padding = 3, .dilation = 3});
  };
  CHECK(apart(sequence({7})).values() == std::vector<double>{7, -test::kInfinity, -test::kInfinity, 7});
  CHECK(gradient(sequence({7}), apart) == std::vector<double>{1 + 4});
}

TEST_CASE("averages: padding counts unless it is left out, and a partial window has fewer elements") {
  const Tensor x = sequence({1, 2, 3, 4, 6});
  CHECK(avg_pool1d(x, 2).values() == std::vector<double>{1.5, 3.5});
  CHECK(avg_pool1d(x, 2, {.last = LastWindow::partial}).values() == std::vector<double>{1.5, 3.5, 6});
  // A window that begins in the padding after x does not exist.
  CHECK(avg_pool1d(sequence({1, 2}), 3, {.padding = 1, .last = LastWindow::partial}).values() ==
        std::vector<double>{1});
  CHECK(avg_pool1d(x, 3, {.padding = 1}).values() == std::vector<double>{1, 13.0 / 3});
  CHECK(avg_pool1d(x, 3, {.padding = 1, .count_padding = false}).values() ==
        std::vector<double>{1.5, 13.0 / 3});
}

TEST_CASE("pools of an empty batch and of an empty sequence are empty") {
  CHECK(max_pool2d(zeros({0, 3, 4, 4}), 2).shape() == Shape{0, 3, 2, 2});
  CHECK(avg_pool2d(zeros({0, 3, 4, 4}), 2).shape() == Shape{0, 3, 2, 2});
  CHECK(max_pool1d(zeros({2, 3, 0}), 2).shape() == Shape{2, 3, 0});
  CHECK(avg_pool1d(zeros({2, 3, 0}), 2, {.padding = 1}).shape() == Shape{2, 3, 0});
}

TEST_CASE("errors of pools name the op, what was wanted and what came") {
  CHECK(test::error_of([] {
          max_pool2d(zeros({3, 4, 4}), 2);
        }) == "max_pool2d: x is [3, 4, 4], wanted [N, C, H, W]");
  CHECK(test::error_of([] {
          max_pool1d(zeros({3, 4, 4}), 2, {.padding = {0, 2}});
        }) == "max_pool1d: the padding (0, 2) of positions hides a whole window of 2");
  CHECK(test::error_of([] {
          avg_pool2d(zeros({1, 1, 4, 4}), {2, 5});
        }) == "avg_pool2d: a window has 5 columns, and x has 4 with its padding");
  CHECK(test::error_of([] { avg_pool1d(zeros({1, 1, 4}, DType::int64), 2); }).starts_with("avg_pool1d: x"));
}
