// Sigmoid attention against a plain loop, and its errors.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "nn/attention/composed.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("a weight is the sigmoid of its score less the logarithm of the number of visible keys") {
  const ComposedAttention attention(parse_attention("sigmoid"), 1, 3, 8);
  const Tensor q = test::normal({1, 1, 4, 3}, 1), k = test::normal({1, 1, 4, 3}, 2),
               v = test::normal({1, 1, 4, 3}, 3);
  const auto got = attention.forward(q, k, v, {.causal = true}).values(), a = q.values(), b = k.values(),
             c = v.values();
  for (size_t i = 0; i < 4; ++i)
    for (size_t d = 0; d < 3; ++d) {
      double want = 0;
      for (size_t j = 0; j <= i; ++j) {
        double s = 0;
        for (size_t e = 0; e < 3; ++e) s += a[i * 3 + e] * b[j * 3 + e] / std::sqrt(3.0);
        want += c[j * 3 + d] / (1 + std::exp(std::log(static_cast<double>(i) + 1) - s));
      }
      CHECK(got[i * 3 + d] == doctest::Approx(want).epsilon(1e-12));
    }
  const auto report = check_gradients(
      [&](const std::vector<Tensor>& t) { return attention.forward(t[0], t[1], t[2], {.causal = true}); },
      {q, k, v});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(ComposedAttention(parse_attention("sigmoid+laser"), 1, 3, 8),
                       doctest::Contains("laser is defined for weights that are ≥ 0 and sum to 1"), Error);
}
