#include "ops/multinomial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/formulas_multinomial.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

TEST_CASE("draws with replacement follow the weights") {
  Generator generator(3);
  const Tensor weights = tensor({1, 0, 3, 6, 0, 0, 2, 0}, {2, 4});
  const V drawn = multinomial(weights, 20000, true, generator).values();
  V counts(8, 0);
  for (size_t i = 0; i < drawn.size(); ++i)
    counts[i / 20000 * 4 + static_cast<size_t>(drawn[i])] += 1.0 / 20000;
  const V want = {0.1, 0, 0.3, 0.6, 0, 0, 1, 0};
  for (size_t i = 0; i < 8; ++i)
    CHECK(std::abs(counts[i] - want[i]) < 1e-9 + 5 * std::sqrt(want[i] * (1 - want[i]) / 20000));
}

TEST_CASE("draws without replacement are different, and as likely as drawing one by one") {
  Generator generator(4);
  const Tensor weights = expand(tensor({1, 2, 0, 5}), {20000, 4});
  const V drawn = multinomial(weights, 2, false, generator).values();
  double first_3 = 0, then_1 = 0;
  for (size_t i = 0; i < drawn.size(); i += 2) {
    CHECK_FALSE(drawn[i] == drawn[i + 1]);
    first_3 += drawn[i] == 3;
    then_1 += drawn[i] == 3 && drawn[i + 1] == 1;
  }
  CHECK(std::abs(first_3 / 20000 - 5.0 / 8) < 5 * std::sqrt(0.25 / 20000));
  CHECK(std::abs(then_1 / first_3 - 2.0 / 3) < 5 * std::sqrt(0.25 / 12500));
  V all = multinomial(tensor({1, 2, 3}), 3, false, generator).values();
  std::sort(all.begin(), all.end());
  CHECK(all == V{0, 1, 2});
}

TEST_CASE("multinomial draws the same for the same seed, and nothing from nothing") {
  Generator a(5), b(5);
  const Tensor weights = random({3, 9}, 6, DType::bfloat16, 0, 1);
  CHECK(multinomial(weights, 4, true, a).values() == multinomial(weights, 4, true, b).values());
  CHECK(multinomial(empty({0, 3}), 2).shape() == Shape{0, 2});
  CHECK(multinomial(ones({2, 3}), 0).shape() == Shape{2, 0});
  CHECK(multinomial(ones({3}), 2).shape() == Shape{2});
}

TEST_CASE("a draw falls where the running sum of a long row first exceeds it") {
  for (const int64_t n : {1, 2, 31, 32, 33, 1024, 1025, 40000}) {
    INFO("n is ", n);
    Generator ids(8), generator(9);
    // Integers: sums are exact in any order.
    Tensor weights = randint(0, 4, {2, n}, Device::cpu, ids);
    weights.data<int64_t>()[n - 1] = weights.data<int64_t>()[2 * n - 1] = 1;
    const Tensor drawn = multinomial(weights, 50, true, generator);
    generator.set(9);
    V want;
    for (int64_t row = 0; row < 2; ++row) {
      const int64_t* const w = weights.data<int64_t>() + row * n;
      const double total = std::accumulate(w, w + n, 0.0);
      for (int64_t draw = 0; draw < 50; ++draw) {
        const double point = generator.next_uniform() * total;
        double sum = 0;
        int64_t i = -1;
        while (sum <= point) sum += static_cast<double>(w[++i]);
        want.push_back(static_cast<double>(i));
      }
    }
    CHECK(drawn.values() == want);
  }
}

TEST_CASE("the waiting time of exponential clocks is -log(u)/rate to some ulp") {
  Generator generator(10);
  double worst = 0;
  const auto compare = [&](double u) {
    const double want = -std::log(u) / 3;
    worst = std::max(worst, std::abs(first_time(u, 3) - want) / std::max(want, 1e-300));
  };
  for (int i = 0; i < 20000; ++i) compare(1 - generator.next_uniform());
  for (const double u : {0x1p-53, 0x1p-52, 0.5, 0.70710678118654746, 0.70710678118654757, 1 - 0x1p-53})
    compare(u);
  CHECK(worst < 1e-15);
  CHECK(first_time(1, 3) == 0);
  CHECK(std::isnan(first_time(0.5, 0)));
}

TEST_CASE("errors name the weight and the row, and draw nothing") {
  CHECK(error_of([] {
          multinomial(tensor({1, -2}), 1);
        }) == "multinomial: weight 1 of row 0 is -2, wanted 0 to 1e+290");
  CHECK(error_of([] {
          multinomial(tensor({1, kNan}), 1);
        }).starts_with("multinomial: weight 1 of row 0 is nan"));
  CHECK(error_of([] {
          multinomial(tensor({1e308, 1e308}, DType::float64), 1, true);  // their sum is infinite
        }).starts_with("multinomial: weight 0 of row 0 is 1e+308"));
  CHECK(error_of([] {
          multinomial(tensor({1, 0}), 2);
        }) == "multinomial: row 0 has 1 weights above 0, too few for 2 draws without replacement");
  CHECK(error_of([] {
          multinomial(tensor({0, 0}), 1, true);
        }).starts_with("multinomial: row 0 has 0 weights above 0"));
  CHECK(error_of([] {
          multinomial(empty({2, 0}), 1, true);
        }).starts_with("multinomial: weights has the shape [2, 0]"));
  CHECK(error_of([] {
          multinomial(ones({2, 3}), 4);
        }) == "multinomial: weights has the shape [2, 3], too few for 4 draws without replacement");
  Generator generator(1);
  error_of([&] { multinomial(tensor({1, 2, 0, 0}, {2, 2}), 1, true, generator); });
  CHECK(generator.offset() == 0);
  CHECK(error_of([] { multinomial(ones({2}), -1); }) == "multinomial: count is -1, wanted at least 0");
}

}  // namespace
}  // namespace vitrine::test
