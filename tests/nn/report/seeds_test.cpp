// Means over seeds and differences between methods: the page and programs print the same words.
#include "nn/report/seeds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>

#include "nn/metrics/metric.h"

using namespace vitrine::nn;
using namespace vitrine::nn::report;

namespace {

RunRecord run(const char* method, const char* seed, double loss, double accuracy = 0.5) {
  RunRecord record;
  record.name = std::string(method) + ", seed " + seed;
  record.method = method;
  record.seed = seed;
  record.final_validation_loss = loss;
  record.metrics = {{"accuracy", true, "{:.2f}", {"accuracy", {1}, {accuracy}}}};
  return record;
}

}  // namespace

TEST_CASE("differences are of pairs of runs with one seed, whatever seeds change in both") {
  // Seeds differ by 1, the methods by 0.1.
  const std::vector<RunRecord> runs = {run("a", "1", 1),  run("a", "2", 2),   run("a", "3", 3),
                                       run("a", "9", 7),  run("b", "3", 2.9), run("b", "1", 0.9),
                                       run("b", "2", 1.9)};
  const auto means = means_over_seeds(runs, final_validation_loss);
  REQUIRE(means.size() == 2);
  CHECK(means[0].method == "a");
  CHECK(means[0].mean.mean == doctest::Approx(3.25));
  CHECK(means[0].difference.count == 0);
  CHECK(means[1].mean.mean == doctest::Approx(1.9));
  CHECK(means[1].difference.count == 3);  // seed 9 occurs in one method only
  CHECK(means[1].difference.mean == doctest::Approx(-0.1));
  CHECK(means[1].difference.high == doctest::Approx(-0.1));
  CHECK(verdict(means[1].difference) == "lower");
}

TEST_CASE("a difference whose interval holds 0 is none, and one pair is too few") {
  CHECK(verdict({.mean = 0.1, .low = -0.1, .high = 0.3, .count = 3}) == "none");
  CHECK(verdict({.mean = 0.1, .low = 0.05, .high = 0.3, .count = 3}) == "higher");
  CHECK(verdict({.mean = 0.1, .count = 1}) == "too few seeds");
  CHECK(interval_text({.mean = 0.1, .count = 1}, "{:.2f}") == "0.10");
  CHECK(interval_text({.mean = 0.1, .low = 0, .high = 0.25, .count = 2}, "{:.2f}") == "0.10 [0.00, 0.25]");
  const std::pair<const char*, const char*> formats[] = {
      {"{:.2f} %", "{:+.2f} %"}, {"{: .2f}", "{:+.2f}"},    {"{:-.2f}", "{:+.2f}"},
      {"{:+.1f}", "{:+.1f}"},    {"{:>8.2f}", "{:>+8.2f}"}, {"{:*<8.2f}", "{:*<+8.2f}"},
      {"{}", "{:+.4f}"},         {"{:}", "{:+}"},           {"{{:}} {:.1f}", "{{:}} {:+.1f}"},
      {"none", "{:+.4f}"}};
  for (const auto& [format, wanted] : formats) {
    CHECK(signed_format(format) == wanted);
    CHECK(formatted(signed_format(format), 0.5).find("+0.5") != std::string::npos);
  }
}

TEST_CASE("the text has means and differences of the loss and of each metric") {
  const std::vector<RunRecord> runs = {run("a", "1", 1, 0.5), run("a", "2", 2, 0.7), run("b", "1", 1.5, 0.6),
                                       run("b", "2", 1.5, 0.9)};
  const std::string text = means_text(runs);
  CHECK(text ==
        "means over seeds, with 95 % intervals of 10000 bootstrap resamples; of fewer than six pairs they "
        "say too much\na: mean validation loss 1.5000 [1.0000, 2.0000] of 2 seeds\nb: mean validation loss "
        "1.5000 [1.5000, 1.5000] of 2 seeds; difference to a: none +0.0000 [-0.5000, +0.5000] of 2 pairs\na: "
        "mean accuracy 0.60 [0.50, 0.70] of 2 seeds\nb: mean accuracy 0.75 [0.60, 0.90] of 2 seeds; "
        "difference to a: higher +0.15 [+0.10, +0.20] of 2 pairs\n");
  CHECK(means_text({run("a", "1", 1), run("b", "1", 2)}).empty());
}

TEST_CASE("runs without a seed, and without a figure, are no pairs") {
  std::vector<RunRecord> runs = {run("a", "", 1), run("a", "2", NAN), run("b", "", 2), run("b", "2", 3)};
  const auto means = means_over_seeds(runs, final_validation_loss);
  CHECK(means[0].mean.count == 1);
  CHECK(means[1].mean.count == 2);
  CHECK(means[1].difference.count == 0);
  CHECK(&reference_of(runs, runs[3]) == &runs[1]);
  CHECK(&reference_of(runs, runs[2]) == &runs[0]);
}
