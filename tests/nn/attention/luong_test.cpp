// Attention of a decoder to an encoder, and pooling with a learned query: gradients, padding,
// steps, and errors. The golden cases compare values.
#include "nn/attention/luong.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/attention/parts/laser.h"
#include "nn/attention/pooling.h"
#include "nn/check_gradients.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

LuongAttention luong(LuongScore score, LuongView view) {
  LuongAttention attention({.width = 4,
                            .source_width = score == LuongScore::dot ? 4 : 3,
                            .score = score,
                            .view = view,
                            .half_window = 2});
  attention.to(DType::float64);
  return attention;
}

constexpr LuongScore kScores[] = {LuongScore::dot, LuongScore::general, LuongScore::concat,
                                  LuongScore::additive};
constexpr LuongView kViews[] = {LuongView::global, LuongView::monotonic, LuongView::predictive};

}  // namespace

TEST_CASE("gradients of each score and view; padding is as if it were not there; a step is as in the whole") {
  const Tensor padding = cast(tensor({1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0}, {2, 7}), DType::boolean);
  for (const LuongScore score : kScores)
    for (const LuongView view : kViews) {
      INFO(static_cast<int>(score), " ", static_cast<int>(view));
      LuongAttention attention = luong(score, view);
      const Tensor h = test::normal({2, 3, 4}, 1),
                   source = test::normal({2, 7, score == LuongScore::dot ? 4 : 3}, 2);
      const GradientReport report = check_gradients(
          attention, [&](const std::vector<Tensor>& x) { return attention.forward(x[0], x[1], padding); },
          {h, source});
      CHECK_MESSAGE(report.passed, to_string(report));
      const Tensor whole = attention.forward(h, source, padding);
      CHECK(test::distance(whole, attention.forward(h, slice(source, 1, 0, 5)), 1) < 1e-12);
      for (int64_t t = 0; t < 3; ++t)
        CHECK(test::distance(attention.forward(slice(h, 1, t, t + 1), source, padding, t),
                             slice(whole, 1, t, t + 1), 1) < 1e-12);
    }
}

TEST_CASE("local views see a window, and a position that no state is near gives 0") {
  const LuongAttention attention = luong(LuongScore::general, LuongView::monotonic);
  const Tensor h = test::normal({1, 4, 4}, 1), source = test::normal({1, 9, 3}, 2);
  const auto weights = attention.attend(h, source).weights;
  CHECK(test::distance(greater(weights, zeros_like(weights)),
                       tensor({1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0,
                               1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0},
                              {1, 4, 9}),
                       1) == 0);
  const auto far = attention.attend(h, source, {}, 20);
  CHECK(test::distance(far.context, zeros({1, 4, 3}, DType::float64), 1) == 0);
}

TEST_CASE("LASER reads log Σ w·e^s, also where a local view sees nothing") {
  for (const LuongView view : {LuongView::global, LuongView::monotonic}) {
    LuongAttention attention({.width = 4, .source_width = 3, .view = view, .half_window = 2},
                             std::make_shared<LaserReadOut>());
    attention.to(DType::float64);
    const Tensor h = test::normal({2, 4, 4}, 1), source = test::normal({2, 9, 3}, 2);
    std::vector<double> seen(18, 1);
    seen[0] = seen[8] = seen[9] = 0;
    for (const int64_t first : {0, 8}) {  // from position 11 on, a local view sees no state
      const auto y = attention.attend(h, source, tensor(seen, {2, 9}, DType::boolean), first);
      const Tensor want = log(matmul(y.weights, exp(source)));
      CHECK(test::distance(y.context, where(is_finite(want), want, 0.0)) < 1e-14);
    }
  }
}

TEST_CASE("coverage is one more term of the tanh, with a gradient") {
  LuongAttention attention({.width = 4, .source_width = 3, .score = LuongScore::additive, .coverage = true});
  attention.to(DType::float64);
  const Tensor h = test::normal({2, 3, 4}, 1), source = test::normal({2, 5, 3}, 2),
               coverage = abs(test::normal({2, 3, 5}, 3));
  attention.score_bias.assign(test::normal({4}, 4));
  const GradientReport report = check_gradients(
      attention,
      [&](const std::vector<Tensor>& x) { return attention.attend(x[0], x[1], {}, 0, x[2]).context; },
      {h, source, coverage});
  CHECK_MESSAGE(report.passed, to_string(report));
  const Tensor weights = attention.attend(h, source, {}, 0, coverage).weights;
  const auto w = attention.score_weight.value().values(), v = attention.score_vector.value().values(),
             b = attention.score_bias.value().values(), c = attention.coverage_weight.value().values();
  const auto hs = h.values(), ss = source.values(), cs = coverage.values(), got = weights.values();
  for (size_t row = 0; row < 6; ++row) {  // one batch row and one h
    std::vector<double> scores(5, 0);
    double total = 0;
    for (size_t s = 0; s < 5; ++s) {
      for (size_t a = 0; a < 4; ++a) {
        double sum = b[a] + c[a] * cs[row * 5 + s];
        for (size_t i = 0; i < 4; ++i) sum += w[a * 7 + i] * hs[row * 4 + i];
        for (size_t i = 0; i < 3; ++i) sum += w[a * 7 + 4 + i] * ss[(row / 3 * 5 + s) * 3 + i];
        scores[s] += v[a] * std::tanh(sum);
      }
      total += std::exp(scores[s]);
    }
    for (size_t s = 0; s < 5; ++s) CHECK(got[row * 5 + s] == doctest::Approx(std::exp(scores[s]) / total));
  }
  CHECK_THROWS_WITH_AS(attention.attend(h, source), doctest::Contains("wanted [2, 3, 5]"), Error);
  CHECK_THROWS_WITH_AS(LuongAttention({.width = 4, .source_width = 4, .view = LuongView::predictive},
                                      std::make_shared<ReadOut>()),
                       doctest::Contains("whose weights do not sum to 1"), Error);
  CHECK_THROWS_WITH_AS(luong(LuongScore::concat, LuongView::global).attend(h, source, {}, 0, coverage),
                       doctest::Contains("wanted none"), Error);
  CHECK_THROWS_WITH_AS(LuongAttention({.width = 4, .source_width = 4, .coverage = true}),
                       doctest::Contains("the score general reads no coverage"), Error);
}

TEST_CASE("pooling: gradients, padding, a sequence of padding alone, and LASER") {
  const Tensor h = test::normal({2, 5, 3}, 3);
  const Tensor padding = cast(tensor({1, 1, 1, 0, 0, 1, 1, 1, 0, 0}, {2, 5}), DType::boolean);
  for (const bool laser : {false, true}) {
    AttentionPooling pooling(3, 4, laser ? std::make_shared<LaserReadOut>() : nullptr);
    pooling.to(DType::float64);
    const GradientReport report = check_gradients(
        pooling, [&](const std::vector<Tensor>& x) { return pooling.forward(x[0], padding); }, {h});
    CHECK_MESSAGE(report.passed, to_string(report));
    const auto whole = pooling.attend(h, padding);
    CHECK(test::distance(whole.y, pooling.forward(slice(h, 1, 0, 3)), 1) < 1e-12);
    CHECK(test::distance(sum(whole.weights, {-1}), ones({2}, DType::float64), 1) < 1e-12);
    const Tensor want = laser ? log(sum(unsqueeze(whole.weights, -1) * exp(h), {1}))
                              : sum(unsqueeze(whole.weights, -1) * h, {1});
    CHECK(test::distance(whole.y, want, 1) < 1e-12);
    CHECK(test::distance(pooling.forward(h, zeros({2, 5}, DType::boolean)), zeros({2, 3}, DType::float64),
                         1) == 0);
  }
}

TEST_CASE("clones, and errors of sizes") {
  LuongAttention attention = luong(LuongScore::concat, LuongView::predictive);
  const Tensor h = test::normal({2, 3, 4}, 1), source = test::normal({2, 7, 3}, 2);
  CHECK(test::distance(attention.clone().forward(h, source), attention.forward(h, source), 1) == 0);
  AttentionPooling pooling(3, 4);
  pooling.to(DType::float64);
  CHECK(test::distance(pooling.clone().forward(source), pooling.forward(source), 1) == 0);
  CHECK_THROWS_WITH_AS(LuongAttention({.width = 4, .source_width = 3, .score = LuongScore::dot}),
                       doctest::Contains("states with 4 and 3 channels, wanted equal numbers"), Error);
  CHECK_THROWS_WITH_AS(attention.forward(source, h), doctest::Contains("wanted [B, T, 4] and [B, S, 3]"),
                       Error);
  CHECK_THROWS_WITH_AS(attention.forward(h, source, ones({2, 6}, DType::boolean)),
                       doctest::Contains("wanted bool [2, 7]"), Error);
  CHECK_THROWS_WITH_AS(pooling.forward(h), doctest::Contains("wanted [B, T, 3]"), Error);
}

TEST_CASE("local views count positions from the first state that is visible") {
  for (const LuongView view : kViews) {
    INFO(static_cast<int>(view));
    const LuongAttention attention = luong(LuongScore::general, view);
    const Tensor h = test::normal({1, 4, 4}, 1), source = test::normal({1, 9, 3}, 2);
    const Tensor visible = cast(tensor({0, 0, 0, 1, 1, 1, 1, 1, 1}, {1, 9}), DType::boolean);
    CHECK(attention.forward(h, slice(source, 1, 0, 0), slice(visible, 1, 0, 0)).shape() == h.shape());
    CHECK(test::distance(attention.forward(h, source, visible), attention.forward(h, slice(source, 1, 3, 9)),
                         1) < 1e-12);
  }
}
