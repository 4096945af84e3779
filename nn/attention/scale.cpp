#include "nn/attention/scale.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace vitrine::nn {
namespace {

/// log g(α) − α and g'(α)/g(α) − 1 for g(α) = ₀F₁(; b; α²/4), which grows about as e^α.
struct LogG {
  double value, slope;
};

/// I_ν(α)·√(2πα)/e^α − 1 for the Bessel function I_ν and a large α: a sum of the products of
/// ((2j − 1)² − 4ν²)/(8αj). Abramowitz and Stegun 1964, 9.7.1.
double large_bessel(double nu, double alpha) {
  double term = 1, sum = 0;
  for (int j = 1; std::abs(term) > 1e-17 * std::abs(sum); ++j) {
    term *= ((2 * j - 1) * (2 * j - 1) - 4 * nu * nu) / (8 * alpha * j);
    sum += term;
  }
  return sum;
}

/// g(α) = Γ(b)·(α/2)^(1 − b)·I_{b−1}(α), and g'/g = I_b/I_{b−1}. A small α takes the series of ₀F₁,
/// whose terms are all positive: about α of them.
LogG log_g(double alpha, double b) {
  if (alpha > 64 && alpha > 8 * b * b) {
    const double bessel = large_bessel(b - 1, alpha);
    return {std::lgamma(b) + (1 - b) * std::log(alpha / 2) - std::log(2 * std::numbers::pi * alpha) / 2 +
                std::log1p(bessel),
            (large_bessel(b, alpha) - bessel) / (1 + bessel)};
  }
  const double z = alpha * alpha / 4;
  double term = 1, sum = 1, weighted = 0, log_scale = -alpha;
  for (int k = 1; k < 1'000'000; ++k) {
    term *= z / (k * (b + k - 1));
    sum += term;
    weighted += k * term;
    if (sum > 1e200) {
      term /= sum, weighted /= sum;
      log_scale += std::log(sum);
      sum = 1;
    }
    if (k > alpha && k * term < 1e-17 * sum) break;
  }
  return {std::log(sum) + log_scale, (alpha == 0 ? 0 : 2 / alpha * weighted / sum) - 1};
}

}  // namespace

double gradient_optimal_scale(double n) {
  check(n > 1, "gradient_optimal_scale: n is {}, wanted more than 1", n);
  // With y = α²: f(y) = y + log(1 + 2y) − log n is concave and increasing.
  double y = std::log(n);
  for (int i = 0; i < 100; ++i) {
    const double step = (y + std::log1p(2 * y) - std::log(n)) / (1 + 2 / (1 + 2 * y));
    y = std::max(y - step, 0.0);
    if (std::abs(step) <= 1e-16 * (1 + y)) break;
  }
  return std::sqrt(y);
}

double gradient_optimal_cosine_scale(double n, double d) {
  check(n > 1 && d >= 2, "gradient_optimal_cosine_scale: n is {} and d {}, wanted n > 1 and d ≥ 2", n, d);
  // f' = 1 − r(1 + α(2ℓ'(2α) − 2ℓ'(α))) with r = g(2α)/(n·g(α)²), ℓ = log g: positive up to the
  // maximum, then negative.
  const auto slope = [&](double alpha) {
    const LogG once = log_g(alpha, d / 2), twice = log_g(2 * alpha, d / 2);
    return 1 - std::exp(twice.value - 2 * once.value) / n * (1 + alpha * 2 * (twice.slope - once.slope));
  };
  constexpr double kLargest = 0x1p60;
  double low = 0, high = 1;
  while (high <= kLargest && slope(high) > 0) high *= 2;
  check(high <= kLargest,
        "gradient_optimal_cosine_scale: n is {}, too many for {} dimensions: the scale is beyond {}", n, d,
        kLargest);
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2;
    (slope(middle) > 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

double normal_objective(double alpha, double n) { return alpha * (1 - std::exp(alpha * alpha) / n); }

double cosine_objective(double alpha, double n, double d) {
  return alpha * (1 - std::exp(log_g(2 * alpha, d / 2).value - 2 * log_g(alpha, d / 2).value) / n);
}

double exact_objective(double alpha, std::span<const double> scores) {
  check(!scores.empty(), "exact_objective: there are no scores");
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0, squares = 0;
  for (double s : scores) {
    const double e = std::exp(alpha * (s - largest));
    sum += e;
    squares += e * e;
  }
  return alpha * (1 - squares / (sum * sum));
}

double entropy_factor(double n) { return std::log(n) / std::log(512.0); }

}  // namespace vitrine::nn
