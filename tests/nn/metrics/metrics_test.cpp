// Accuracy, perplexity, and means with their intervals.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/metrics/accuracy.h"
#include "nn/metrics/bootstrap.h"
#include "nn/metrics/embeddings.h"
#include "nn/metrics/perplexity.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("a sequence is right if each of its targets that counts has the largest logit") {
  const Tensor logits = tensor({3, 1, 2, 0, 5, 1, 1, 1, 0, 9, 8, 7}, {2, 2, 3});
  const auto right = [&](std::vector<int64_t> targets) {
    return sequence_accuracy(logits, tensor(targets, {2, 2})).sum;
  };
  CHECK(right({0, 1, 0, 0}) == 2);
  CHECK(right({0, 2, 0, 0}) == 1);
  CHECK(right({0, -100, 1, 0}) == 1);
  CHECK(right({2, 1, 0, 1}) == 0);
  CHECK(sequence_accuracy(logits, zeros({2, 2}, DType::int64)).weight == 2);
  CHECK(sequence_accuracy(logits, ones({2, 2}, DType::int64), 1).sum == 2);
  CHECK_THROWS_WITH_AS(sequence_accuracy(logits, zeros({2, 3}, DType::int64)),
                       doctest::Contains("[..., classes]"), Error);
  CHECK_THROWS_WITH_AS(sequence_accuracy(zeros({3}), tensor(std::vector<int64_t>{1}, {})),
                       doctest::Contains("at least one"), Error);
  CHECK_THROWS_WITH_AS(sequence_accuracy(zeros({2, 0, 3}), zeros({2, 0}, DType::int64)),
                       doctest::Contains("at least one"), Error);
}

TEST_CASE("accuracy counts the targets that the largest logit names, and leaves ignored ones out") {
  const Tensor logits = tensor({3, 1, 2, 0, 5, 1, 1, 1, 0, 9, 8, 7}, {2, 2, 3});
  const Tensor targets = tensor(std::vector<int64_t>{0, 1, 1, -100}, {2, 2});
  const WeightedSum all = accuracy(logits, targets);
  CHECK(all.sum == 2);  // the third row has two largest logits; the first counts
  CHECK(all.weight == 3);
  CHECK(accuracy(logits, targets, 1).weight == 2);
  CHECK_THROWS_WITH_AS(accuracy(logits, reshape(targets, {4, 1})), doctest::Contains("[..., classes]"),
                       Error);
  CHECK_THROWS_WITH_AS(accuracy(logits, tensor({0., 1.}, {2})), doctest::Contains("[..., classes]"), Error);
  const Tensor classes = tensor(std::vector<int64_t>{0, 1, 1, 2}, {2, 2});
  CHECK(confusion_counts(logits, classes) == std::vector<double>{1, 0, 0, 1, 1, 0, 1, 0, 0});
  CHECK_THROWS_WITH_AS(confusion_counts(logits, targets),
                       doctest::Contains("the target -100 is outside [0, 3)"), Error);
  CHECK_THROWS_WITH_AS(confusion_counts(logits, reshape(classes, {4})), doctest::Contains("[..., classes]"),
                       Error);
  const Metric metric = accuracy_metric([&](const Tensor& x) { return x; });
  CHECK(metric.more_is_better);
  CHECK(metric.of_batch({logits, targets}).sum == 2);
}

TEST_CASE("perplexity is the exponential of the loss, and less of it is better") {
  CHECK(perplexity(std::log(65)) == doctest::Approx(65));
  const Metric metric = perplexity_metric();
  CHECK_FALSE(metric.more_is_better);
  CHECK(metric.of_split(0) == 1);
  CHECK(formatted(metric.format, 3.14159) == "3.14");
  CHECK(formatted("{:.2f}", NAN) == "–");
  CHECK_THROWS_WITH_AS(formatted("{:d}", 1), doctest::Contains("prints no number"), Error);
  for (const char* format : {"{:.100f}", "{:999999999.1f}"})
    CHECK_THROWS_WITH_AS(formatted(format, 1), doctest::Contains("a width or a precision of 100 or more"),
                         Error);
  CHECK(formatted("{:.2f} of 1000", 0.125) == "0.12 of 1000");
  CHECK(formatted("{{100}} {:.1f}", 0.5) == "{100} 0.5");
}

TEST_CASE("the interval of a mean holds the true mean in about 95 of 100 samples") {
  Generator generator(7);
  int held = 0;
  for (int sample = 0; sample < 60; ++sample) {
    std::vector<double> values(25);
    for (double& x : values) x = 3 + generator.next_uniform() + generator.next_uniform();
    const MeanInterval interval = bootstrap_mean(values);
    CHECK(interval.low < interval.mean);
    CHECK(interval.mean < interval.high);
    held += interval.low <= 4 && 4 <= interval.high ? 1 : 0;
  }
  CHECK(held >= 50);
  CHECK(held < 60);
}

TEST_CASE("few values: an interval within them, none of one, and the same each time") {
  const MeanInterval pair = bootstrap_mean({1, 3});
  CHECK(pair.mean == 2);
  CHECK(pair.low == 1);
  CHECK(pair.high == 3);
  CHECK(pair.excludes_zero());
  CHECK_FALSE(bootstrap_mean({-1, 3}).excludes_zero());
  CHECK_FALSE(bootstrap_mean({5}).excludes_zero());
  CHECK(bootstrap_mean({5}).mean == 5);
  CHECK(std::isnan(bootstrap_mean({}).mean));
  const std::vector<double> some = {0.1, 0.4, 0.2, 0.9};
  CHECK(bootstrap_mean(some).low == bootstrap_mean(some).low);
}

TEST_CASE("retrieval, alignment and uniformity of vectors agree with their definitions") {
  Generator g(3);
  const Tensor a = randn({5, 3}, DType::float64, Device::cpu, 0, 1, g),
               b = randn({5, 3}, DType::float64, Device::cpu, 0, 1, g);
  const auto unit = [](const Tensor& x) {
    auto rows = x.values();
    for (size_t i = 0; i < rows.size(); i += 3) {
      const double norm =
          std::sqrt(rows[i] * rows[i] + rows[i + 1] * rows[i + 1] + rows[i + 2] * rows[i + 2]);
      for (size_t j = i; j < i + 3; ++j) rows[j] /= norm;
    }
    return rows;
  };
  const auto squared = [](const std::vector<double>& x, size_t i, const std::vector<double>& y, size_t j) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += (x[3 * i + c] - y[3 * j + c]) * (x[3 * i + c] - y[3 * j + c]);
    return sum;
  };
  const auto u = unit(a), v = unit(b);
  double near = 0, even = 0;
  int64_t found = 0;
  for (size_t i = 0; i < 5; ++i) {
    near += squared(u, i, v, i) / 5;
    size_t best = 0;
    for (size_t j = 0; j < 5; ++j) {
      if (squared(u, i, v, j) < squared(u, i, v, best)) best = j;
      if (i != j) even += std::exp(-2 * squared(u, i, u, j)) / 20;
    }
    found += best == i ? 1 : 0;
  }
  CHECK(alignment(a, b) == doctest::Approx(near).epsilon(1e-12));
  CHECK(uniformity(a) == doctest::Approx(std::log(even)).epsilon(1e-12));
  CHECK(retrieval_accuracy(a, b).sum == static_cast<double>(found));
  CHECK(retrieval_accuracy(a, a * 3.0).sum == 5);  // lengths do not matter
  CHECK(retrieval_accuracy(a, b).weight == 5);
  CHECK(alignment(a, a) == doctest::Approx(0));
  CHECK(alignment(a, a * -1.0) == doctest::Approx(4));
  const Tensor one = tensor({1., 2., 3.}, {1, 3}), opposite = tensor({1., 0., -2., 0.}, {2, 2});
  CHECK(uniformity(concat({one, one}, 0)) == doctest::Approx(0));
  CHECK(uniformity(opposite) == doctest::Approx(-8));
  CHECK_THROWS_WITH_AS(uniformity(one), doctest::Contains("at least two rows"), Error);
  CHECK_THROWS_WITH_AS(alignment(a, one), doctest::Contains("wanted the same [N, C]"), Error);
}
