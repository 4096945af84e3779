// Accuracy, perplexity, and means with their intervals.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/metrics/accuracy.h"
#include "nn/metrics/bootstrap.h"
#include "nn/metrics/perplexity.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

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
