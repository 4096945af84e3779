// Entmax 1.5 and sparsemax against a search for their threshold, and their gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "nn/attention/composed.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// p_i = [s_i/divisor − τ]₊^power: 2 and 2 for entmax 1.5, 1 and 1 for sparsemax.
struct Family {
  const char* name;
  double divisor, power;
};
constexpr Family kFamilies[] = {{"entmax", 2, 2}, {"sparsemax", 1, 1}};

/// The weights of one row, by bisection for the τ for which their sum is 1.
std::vector<double> searched(const std::vector<double>& scores, const Family& f) {
  const auto at = [&](double threshold) {
    std::vector<double> p;
    for (const double s : scores) p.push_back(std::pow(std::max(s / f.divisor - threshold, 0.0), f.power));
    return p;
  };
  double high = *std::max_element(scores.begin(), scores.end()) / f.divisor, low = high - 1;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    double total = 0;
    for (const double p : at(middle)) total += p;
    (total > 1 ? low : high) = middle;
  }
  return at(low);
}

}  // namespace

TEST_CASE("the weights are those that a search for the threshold has, hidden keys and empty rows have 0") {
  for (const Family& family : kFamilies) {
    INFO(family.name);
    const auto part = parse_attention(family.name).parts[0].row->make({2, 4, 8}, PartValues());
    for (const double deviation : {0.0, 0.3, 3.0, 300.0}) {
      const Tensor scores = test::normal({5, 7}, 4, DType::float64, deviation);
      const auto got = part->normalize(scores).values(), all = scores.values();
      for (size_t row = 0; row < 5; ++row) {
        const auto begin = all.begin() + static_cast<long>(row) * 7;
        const auto want = searched({begin, begin + 7}, family);
        for (size_t i = 0; i < 7; ++i)
          CHECK(got[row * 7 + i] == doctest::Approx(want[i]).epsilon(1e-9).scale(1));
      }
    }
    CHECK(part->normalize(zeros({2, 5, 0})).shape() == Shape{2, 5, 0});  // no keys
    const Tensor hidden =
        part->normalize(tensor({1, -INFINITY, 1, -INFINITY, -INFINITY, -INFINITY}, {2, 3}, DType::float64));
    CHECK(spec::distance(hidden.values(), {0.5, 0, 0.5, 0, 0, 0}, 1) < 1e-15);
  }
}

TEST_CASE("gradients of both, with keys in and out of the support") {
  for (const Family& family : kFamilies) {
    INFO(family.name);
    const ComposedAttention attention(parse_attention(family.name), 2, 4, 8);
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& t) { return attention.forward(t[0], t[1], t[2], {.causal = true}); },
        {test::normal({1, 2, 5, 4}, 1, DType::float64, 2), test::normal({1, 2, 5, 4}, 2, DType::float64, 2),
         test::normal({1, 2, 5, 4}, 3)});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}
