// CTC's loss and decoders against an enumeration of all paths.
#include "ops/ctc.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/generation/ctc.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Labels = std::vector<int64_t>;

/// The probability of every labelling of logits [T, V]: the sum over its paths.
std::map<Labels, double> all_labellings(const Tensor& logits, int64_t blank) {
  const int64_t time = logits.size(0), classes = logits.size(1);
  const std::vector<double> p = softmax(logits).values();
  std::map<Labels, double> total;
  Labels path(static_cast<size_t>(time), 0);
  for (bool more = true; more;) {
    double product = 1;
    Labels labels;
    for (int64_t t = 0; t < time; ++t) {
      product *= p[t * classes + path[t]];
      if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
    }
    total[labels] += product;
    more = false;
    for (int64_t& c : path) {
      if (++c < classes) {
        more = true;
        break;
      }
      c = 0;
    }
  }
  return total;
}

CtcOptions each(int64_t blank = 0) {
  CtcOptions o;
  o.reduction = Reduction::none, o.blank = blank;
  return o;
}

}  // namespace

TEST_CASE("the loss is the sum over all paths, for every labelling and blank") {
  for (const int64_t blank : {0, 2}) {
    const Tensor logits = test::normal({5, 3}, 1);
    double total = 0;
    for (const auto& [labels, probability] : all_labellings(logits, blank)) {
      const Tensor targets = index_tensor(labels, {1, static_cast<int64_t>(labels.size())});
      const double loss = ctc_loss(unsqueeze(logits, 0), targets, each(blank)).item();
      CHECK(loss == doctest::Approx(-std::log(probability)).epsilon(1e-12));
      total += std::exp(-loss);
    }
    CHECK(total == doctest::Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("paths that do not exist: infinite losses without a gradient") {
  // Two equal labels need a blank between them: three frames at least.
  const auto loss = [](int64_t time, const Labels& labels) {
    return ctc_loss(zeros({1, time, 3}), index_tensor(labels, {1, static_cast<int64_t>(labels.size())}),
                    each())
        .item();
  };
  CHECK(loss(2, {1, 1}) == INFINITY);
  CHECK(loss(3, {1, 1}) == doctest::Approx(3 * std::log(3.0)));
  CHECK(loss(2, {1, 2}) == doctest::Approx(2 * std::log(3.0)));
  CHECK(loss(0, {}) == 0);
  CHECK(loss(0, {1}) == INFINITY);
  Tape tape;
  const Tensor x = tape.watch(test::normal({2, 2, 3}, 2));
  const Tensor losses = ctc_loss(x, index_tensor(Labels{1, 1, 1, 2}, {2, 2}), each());
  const Tensor dx = tape.gradient({losses}, {x}, {ones({2}, DType::float64)})[0];
  for (int64_t i = 0; i < 6; ++i) CHECK(dx.values()[i] == 0);
  CHECK(std::abs(dx.values()[6]) > 0);
}

TEST_CASE("what is beyond a row's lengths is not read, and has no gradient") {
  Tensor x = test::normal({2, 7, 4}, 3);
  CtcOptions o = each();
  o.input_lengths = index_tensor(Labels{5, 7}, {2});
  o.target_lengths = index_tensor(Labels{2, 3}, {2});
  const Tensor targets = index_tensor(Labels{1, 2, -1, 3, 3, 1}, {2, 3});
  const auto before = ctc_loss(x, targets, o).values();
  CHECK(before[0] ==
        ctc_loss(slice(slice(x, 0, 0, 1), 1, 0, 5), index_tensor(Labels{1, 2}, {1, 2}), each()).item());
  Tensor tail = slice(slice(x, 0, 0, 1), 1, 5, 7);
  scale_in_place(tail, 100);
  CHECK(ctc_loss(x, targets, o).values() == before);
  Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor dx = tape.gradient(sum(ctc_loss(watched, targets, o)), {watched})[0];
  for (const double g : slice(slice(dx, 0, 0, 1), 1, 5, 7).values()) CHECK(g == 0);
  // The shares of the classes sum to 1, and so does the softmax.
  for (const double g : sum(dx, {-1}).values()) CHECK(std::abs(g) <= 1e-14);
}

TEST_CASE("reductions, low precision, and paths whose probability underflows") {
  const Tensor x = test::normal({2, 6, 4}, 4), targets = index_tensor(Labels{1, 2, 3, -1}, {2, 2});
  CtcOptions o = each();
  o.target_lengths = index_tensor(Labels{2, 1}, {2});
  const auto losses = ctc_loss(x, targets, o).values();
  o.reduction = Reduction::sum;
  CHECK(ctc_loss(x, targets, o).item() == doctest::Approx(losses[0] + losses[1]).epsilon(1e-14));
  o.reduction = Reduction::mean;
  CHECK(ctc_loss(x, targets, o).item() == doctest::Approx((losses[0] / 2 + losses[1]) / 2).epsilon(1e-14));
  const Tensor half = copy_as(x, DType::bfloat16);
  CHECK(ctc_loss(half, targets, o).dtype() == DType::float32);
  CHECK(ctc_loss(half, targets, o).item() ==
        doctest::Approx(ctc_loss(copy_as(half, DType::float64), targets, o).item()).epsilon(1e-5));
  const Tensor flat = zeros({1, 400, 5});
  CHECK(ctc_loss(flat, index_tensor(Labels{}, {1, 0}), each()).item() ==
        doctest::Approx(400 * std::log(5.0)).epsilon(1e-6));
}

TEST_CASE("losses and gradients have the same bits on 1, 2, 3 and 7 threads") {
  const int before = threads();
  const Tensor x = test::normal({9, 40, 6}, 5, DType::float32);
  Generator generator(1);
  const Tensor targets = randint(1, 6, {9, 12}, Device::cpu, generator);
  std::vector<std::vector<double>> results;
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    Tape tape;
    const Tensor watched = tape.watch(x);
    results.push_back(tape.gradient(ctc_loss(watched, targets), {watched})[0].values());
  }
  set_threads(before);
  for (const auto& result : results) CHECK(result == results[0]);
}

TEST_CASE("arguments that do not fit are errors") {
  const Tensor x = zeros({2, 3, 4}), targets = index_tensor(Labels{1, 2, 3, 1}, {2, 2});
  CHECK_THROWS_WITH(ctc_loss(zeros({2, 3}), targets),
                    doctest::Contains("logits is [2, 3], wanted [B, T, V]"));
  CHECK_THROWS_WITH(ctc_loss(zeros({3, 3, 4}), targets),
                    doctest::Contains("targets is [2, 2], wanted [3, L]"));
  CHECK_THROWS_WITH(ctc_loss(x, index_tensor(Labels{1, 2, 4, 1}, {2, 2})),
                    doctest::Contains("targets has 4"));
  CHECK_THROWS_WITH(ctc_loss(x, cast(targets, DType::float32)),
                    doctest::Contains("wanted int64, int32 or uint8"));
  CHECK_THROWS_WITH(ctc_loss(x, targets, each(2)), doctest::Contains("a target is 2, which is the blank"));
  CHECK_THROWS_WITH(ctc_loss(x, targets, each(4)), doctest::Contains("blank is 4, wanted a class in [0, 4)"));
  CtcOptions o;
  o.input_lengths = index_tensor(Labels{3, 4}, {2});
  CHECK_THROWS_WITH(ctc_loss(x, targets, o), doctest::Contains("input_lengths has 4"));
  o.input_lengths = index_tensor(Labels{3}, {1});
  CHECK_THROWS_WITH(ctc_loss(x, targets, o), doctest::Contains("wanted [2]"));
  CHECK_THROWS_WITH(nn::ctc_greedy(zeros({2, 3})), doctest::Contains("wanted floating [B, T, V]"));
  CHECK_THROWS_WITH(nn::ctc_prefix_beam(x, 0), doctest::Contains("beam is 0, wanted at least 1"));
  CHECK_THROWS_WITH(nn::ctc_greedy(x, index_tensor(Labels{1, 9}, {2})),
                    doctest::Contains("lengths has 9 in row 1"));
}

TEST_CASE("greedy decoding merges repeats and drops blanks; the best path is not always the best labelling") {
  const auto one_hot_rows = [](const Labels& classes) {
    std::vector<double> logits;
    for (const int64_t c : classes)
      for (int64_t i = 0; i < 3; ++i) logits.push_back(i == c ? 9 : 0);
    return tensor(logits, Shape{1, static_cast<int64_t>(classes.size()), 3});
  };
  const auto greedy = [&](const Labels& classes) { return nn::ctc_greedy(one_hot_rows(classes)).values(); };
  CHECK(greedy({1, 1, 0, 1, 2, 2}) == std::vector<double>{1, 1, 2, -1, -1, -1});
  CHECK(greedy({0, 0}) == std::vector<double>{-1, -1});
  // A tie is the blank.
  CHECK(nn::ctc_greedy(zeros({1, 2, 3})).values() == std::vector<double>{-1, -1});
  // The best path is two blanks (0.36), but three paths have the label (0.64).
  const Tensor p = log(tensor({0.6, 0.4, 0.6, 0.4}, {1, 2, 2}, DType::float64));
  CHECK(nn::ctc_greedy(p).values() == std::vector<double>{-1, -1});
  const nn::CtcLabels best = nn::ctc_prefix_beam(p, 4);
  CHECK(best.labels.values() == std::vector<double>{1, -1});
  CHECK(best.log_probabilities.item() == doctest::Approx(std::log(0.64)).epsilon(1e-12));
}

TEST_CASE("a beam with room for all prefixes finds the most likely labelling, and its loss") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Tensor logits = test::normal({5, 3}, seed);
    const auto all = all_labellings(logits, 0);
    const auto most = std::max_element(all.begin(), all.end(),
                                       [](const auto& x, const auto& y) { return x.second < y.second; });
    const nn::CtcLabels best = nn::ctc_prefix_beam(unsqueeze(logits, 0), 1000);
    Labels wanted = most->first;
    wanted.resize(5, -1);
    CHECK(best.labels.values() == std::vector<double>(wanted.begin(), wanted.end()));
    CHECK(best.log_probabilities.item() == doctest::Approx(std::log(most->second)).epsilon(1e-12));
    // A narrow beam finds a labelling, and at most its probability.
    const nn::CtcLabels narrow = nn::ctc_prefix_beam(unsqueeze(logits, 0), 2);
    CHECK(narrow.log_probabilities.item() <= best.log_probabilities.item() + 1e-12);
  }
}
