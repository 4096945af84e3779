#include "nn/init.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "core/parallel.h"
#include "ops/matmul.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Statistics {
  double mean = 0, deviation = 0, largest = 0;
};

Statistics statistics(const Parameter& p) {
  Statistics s;
  const auto x = p.master().values();
  for (double v : x) s.mean += v / static_cast<double>(x.size());
  for (double v : x) s.deviation += (v - s.mean) * (v - s.mean) / static_cast<double>(x.size());
  for (double v : x) s.largest = std::max(s.largest, std::abs(v));
  s.deviation = std::sqrt(s.deviation);
  return s;
}

}  // namespace

TEST_CASE("initial values have the mean, deviation and bound that their papers give") {
  const Shape shape{300, 200};  // 60,000 values: deviations within 1 %
  Generator g(1);
  const auto check_one = [&](const char* name, const Parameter& p, double deviation, double bound) {
    const Statistics s = statistics(p);
    INFO(name, ": mean ", s.mean, ", deviation ", s.deviation, ", largest ", s.largest);
    CHECK(std::abs(s.mean) < 0.015 * deviation);
    CHECK(std::abs(s.deviation / deviation - 1) < 0.01);
    if (bound > 0) {
      CHECK(s.largest <= bound * (1 + 1e-6));
      CHECK(s.largest > 0.99 * bound);
    } else {
      CHECK(s.largest > 3.5 * deviation);
    }
  };
  const double third = std::sqrt(3.0);
  check_one("normal", normal(shape, 0.7, g), 0.7, 0);
  check_one("uniform", uniform(shape, 0.6, g), 0.6 / third, 0.6);
  // The standard deviation of a standard normal truncated at ±2: √(1 − 4φ(2)/(2Φ(2) − 1)).
  const double density = std::exp(-2.0) / std::sqrt(2 * M_PI), inside = std::erf(std::sqrt(2.0));
  check_one("truncated_normal", truncated_normal(shape, 0.5, g), 0.5 * std::sqrt(1 - 4 * density / inside),
            1);
  check_one("xavier_uniform", xavier_uniform(shape, 2, g), 2 * std::sqrt(2 / 500.0),
            2 * std::sqrt(6 / 500.0));
  check_one("xavier_normal", xavier_normal(shape, 2, g), 2 * std::sqrt(2 / 500.0), 0);
  check_one("kaiming_uniform", kaiming_uniform(shape, std::sqrt(2.0), g), std::sqrt(2 / 200.0),
            std::sqrt(6 / 200.0));
  check_one("kaiming_normal", kaiming_normal(shape, std::sqrt(2.0), g), std::sqrt(2 / 200.0), 0);
  CHECK(residual_deviation(0.02, 8) == doctest::Approx(0.005).scale(0));
}

TEST_CASE("orthogonal rows, or columns where they are fewer") {
  for (const Shape& shape : {Shape{5, 9}, Shape{9, 5}, Shape{6, 6}, Shape{1, 3}}) {
    Generator g(2);
    const Tensor w = copy_as(orthogonal(shape, 3, g).master(), DType::float64);
    const Tensor square = shape[0] <= shape[1] ? matmul(w, transpose(w)) : matmul(transpose(w), w);
    const auto x = square.values();
    const auto n = static_cast<size_t>(std::min(shape[0], shape[1]));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) CHECK(std::abs(x[i * n + j] - (i == j ? 9 : 0)) < 1e-5);
  }
  // No direction is preferred: half of many 2 × 2 matrices have a positive first diagonal element.
  Generator g(3);
  int positive = 0;
  for (int i = 0; i < 1000; ++i) positive += orthogonal({2, 2}, 1, g).master().values()[0] > 0;
  CHECK(std::abs(positive - 500) < 80);
}

TEST_CASE("one seed gives the same bits, on any number of threads; another seed gives others") {
  const std::vector<std::function<Parameter(Generator&)>> makers = {[](Generator& g) {
                                                                      return normal({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return uniform({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return truncated_normal({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return orthogonal({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return xavier_uniform({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return xavier_normal({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return kaiming_uniform({40, 30}, 1, g);
                                                                    },
                                                                    [](Generator& g) {
                                                                      return kaiming_normal({40, 30}, 1, g);
                                                                    }};
  const int before = threads();
  for (const auto& make : makers) {
    const auto values = [&](uint64_t seed, int count) {
      set_threads(count);
      Generator g(seed);
      return make(g).master().values();
    };
    CHECK(values(1, 1) == values(1, 3));
    CHECK(values(1, 1) != values(2, 1));
  }
  set_threads(before);
}

TEST_CASE("shapes and deviations that make no sense are refused") {
  CHECK_THROWS_WITH_AS(xavier_normal({3}), doctest::Contains("xavier_normal: wanted the shape [out, in]"),
                       Error);
  CHECK_THROWS_WITH_AS(orthogonal({2, 2, 2}), doctest::Contains("orthogonal: wanted the shape"), Error);
  CHECK_THROWS_WITH_AS(normal({2}, -1), doctest::Contains("the deviation is -1"), Error);
  CHECK_THROWS_WITH_AS(residual_deviation(1, 0), doctest::Contains("at least one layer"), Error);
}
