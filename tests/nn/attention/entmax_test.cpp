// Entmax 1.5 against a search for its threshold, and its gradient.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/random.h"
#include "nn/attention/composed.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// The weights of one row, by bisection for τ with Σ [s/2 − τ]₊² = 1.
std::vector<double> searched(const std::vector<double>& scores) {
  const auto at = [&](double threshold) {
    std::vector<double> p;
    for (const double s : scores) p.push_back(std::pow(std::max(s / 2 - threshold, 0.0), 2));
    return p;
  };
  double high = *std::max_element(scores.begin(), scores.end()) / 2, low = high - 1;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    double total = 0;
    for (const double p : at(middle)) total += p;
    (total > 1 ? low : high) = middle;
  }
  return at(low);
}

Tensor normal(const Shape& shape, uint64_t seed, double deviation = 1) {
  Generator g(seed);
  return randn(shape, DType::float64, Device::cpu, 0, deviation, g);
}

}  // namespace

TEST_CASE("entmax has the weights that a search for its threshold has, hidden keys and empty rows have 0") {
  const auto part = parse_attention("entmax").parts[0].row->make({2, 4, 8}, PartValues());
  for (const double deviation : {0.0, 0.3, 3.0, 300.0}) {
    const Tensor scores = normal({5, 7}, 4, deviation);
    const auto got = part->normalize(scores).values(), all = scores.values();
    for (size_t row = 0; row < 5; ++row) {
      const auto want =
          searched({all.begin() + static_cast<long>(row) * 7, all.begin() + static_cast<long>(row + 1) * 7});
      for (size_t i = 0; i < 7; ++i)
        CHECK(got[row * 7 + i] == doctest::Approx(want[i]).epsilon(1e-9).scale(1));
    }
  }
  const Tensor hidden =
      part->normalize(tensor({1, -INFINITY, 1, -INFINITY, -INFINITY, -INFINITY}, {2, 3}, DType::float64));
  CHECK(spec::distance(hidden.values(), {0.5, 0, 0.5, 0, 0, 0}, 1) < 1e-15);
}

TEST_CASE("gradients of entmax, with keys in and out of the support") {
  const ComposedAttention attention(parse_attention("entmax"), 2, 4, 8);
  const auto report = check_gradients(
      [&](const std::vector<Tensor>& t) { return attention.forward(t[0], t[1], t[2], {.causal = true}); },
      {normal({1, 2, 5, 4}, 1, 2), normal({1, 2, 5, 4}, 2, 2), normal({1, 2, 5, 4}, 3)});
  CHECK_MESSAGE(report.passed, to_string(report));
}
