#include "nn/attention/scale.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace vitrine::nn;

TEST_CASE("the gradient-optimal scale of normal scores has its published values") {
  for (auto [n, alpha] : {std::pair{64.0, 1.549439},
                          {256.0, 1.863493},
                          {1024.0, 2.146531},
                          {4096.0, 2.405463},
                          {20000.0, 2.678185}})
    CHECK(gradient_optimal_scale(n) == doctest::Approx(alpha).epsilon(1e-6));
}

TEST_CASE("the gradient-optimal scale of cosine scores has its published values") {
  CHECK(gradient_optimal_cosine_scale(1000, 128) == doctest::Approx(26.020597).epsilon(1e-7));
  CHECK(gradient_optimal_cosine_scale(1024, 128) == doctest::Approx(26.083826).epsilon(1e-7));
  CHECK(gradient_optimal_cosine_scale(20000, 128) == doctest::Approx(33.683825).epsilon(1e-7));
}

TEST_CASE("the solved scales maximize their objectives") {
  for (double n : {40.0, 1000.0, 50000.0}) {
    const double a = gradient_optimal_scale(n), c = gradient_optimal_cosine_scale(n, 64);
    CHECK(normal_objective(a, n) > normal_objective(a * 1.001, n));
    CHECK(normal_objective(a, n) > normal_objective(a * 0.999, n));
    CHECK(cosine_objective(c, n, 64) > cosine_objective(c * 1.001, n, 64));
    CHECK(cosine_objective(c, n, 64) > cosine_objective(c * 0.999, n, 64));
  }
}

TEST_CASE("the entropy factor is 1 at 512") {
  CHECK(entropy_factor(512) == doctest::Approx(1).epsilon(1e-15));
}

TEST_CASE("the exact objective of two equal scores is alpha over 2") {
  const double scores[] = {3, 3};
  CHECK(exact_objective(1.5, scores) == doctest::Approx(0.75));
}
