#include "nn/attention/scale.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "nn/attention/composed.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("scales, their objectives and the entropy factor equal the reference") {
  const auto near = [](double got, double want) {
    check(std::abs(got - want) <= 1e-9 * std::abs(want), "{}, wanted {}", got, want);
  };
  const auto check_row = [&](const test::Json& json_row) {
    const test::Settings row(json_row);
    const double n = row.at("n"), alpha = row.at("alpha"), objective = row.at("max_objective");
    const std::string law = row.at("law");
    if (law == "normal") {
      near(gradient_optimal_scale(n), alpha);
      near(normal_objective(alpha, n), objective);
      if (row.has("entropy_factor_log512_n")) near(entropy_factor(n), row.at("entropy_factor_log512_n"));
    } else {
      check(law == "cosine", "the law {} is not known", law);
      const double d = row.at("d");
      near(gradient_optimal_cosine_scale(n, d), alpha);
      near(cosine_objective(alpha, n, d), objective);
    }
    row.check_all_read("the scale");
  };
  for (const test::CaseFolder& folder : test::case_folders("truth_cases")) {
    if (!folder.golden && !std::filesystem::exists(folder.path / "scale.json")) continue;
    const test::Json json = test::read_json(folder.path / "scale.json");
    test::CaseRunner rows, exact;
    rows.run(json.at("rows"), "law", check_row);
    exact.run(json.at("exact_objective"), "s", [&](const test::Json& c) {
      const std::vector<double> scores = c.at("s");
      near(exact_objective(c.at("alpha"), scores), c.at("half_l1_of_jacobian"));
    });
    CHECK(rows.failures() == "");
    CHECK(exact.failures() == "");
    if (!folder.golden) continue;
    CHECK(rows.ran() == 28);
    CHECK(exact.ran() == 10);
  }
}

TEST_CASE("an attention has the scale of its policy, with n half its context and at least 2") {
  const auto scale = [](const char* name, int64_t context) {
    return ComposedAttention(parse_attention(name), 4, 64, context).scale();
  };
  for (auto [context, alpha] :
       {std::pair{64, 1.377667}, {512, 1.863493}, {1024, 2.008395}, {2048, 2.146531}, {4096, 2.278673}}) {
    CHECK(scale("optimal", context) * 8 == doctest::Approx(alpha).epsilon(1e-6));
    CHECK(scale("entropy", context) * 8 ==
          doctest::Approx(std::log(context / 2.0) / std::log(512.0)).epsilon(1e-12));
    CHECK(scale("standard", context) == 0.125);
    CHECK(scale("scale=0.3", context) == 0.3);
  }
  CHECK(ComposedAttention(parse_attention("cosine"), 4, 128, 2000).scale() ==
        doctest::Approx(26.020597).epsilon(1e-7));
  CHECK(ComposedAttention(parse_attention("cosine"), 4, 128, 2048).scale() ==
        doctest::Approx(26.083826).epsilon(1e-7));
  CHECK(scale("optimal", 1) * 8 == doctest::Approx(gradient_optimal_scale(2)).epsilon(1e-12));
}

TEST_CASE("the solved scales maximize their objectives") {
  for (double n : {40.0, 1000.0, 50000.0}) {
    const double a = gradient_optimal_scale(n), c = gradient_optimal_cosine_scale(n, 64);
    CHECK(normal_objective(a, n) > normal_objective(a * 1.001, n));
    CHECK(normal_objective(a, n) > normal_objective(a * 0.999, n));
    CHECK(cosine_objective(c, n, 64) > cosine_objective(c * 1.001, n, 64));
    CHECK(cosine_objective(c, n, 64) > cosine_objective(c * 0.999, n, 64));
  }
}

TEST_CASE("in 3 dimensions the scale of n keys tends to n/2, in 2 dimensions it grows as n²") {
  // For d = 3 the objective is α(1 − α·coth(α)/n).
  for (const double n : {300.0, 1e4, 1e8})
    CHECK(gradient_optimal_cosine_scale(n, 3) == doctest::Approx(n / 2).epsilon(1e-13));
  const double at_1e4 = gradient_optimal_cosine_scale(1e4, 2), at_1e8 = gradient_optimal_cosine_scale(1e8, 2);
  CHECK(at_1e8 / at_1e4 == doctest::Approx(1e8).epsilon(1e-6));
  // On both sides of the change of formulas, for α and for 2α. With n = 1 the power counts.
  for (const double d : {2.0, 3.0, 5.0, 16.0}) {
    const double change = std::max(64.0, 2 * d * d);
    for (const double alpha : {change, change / 2})
      CHECK(cosine_objective(alpha * (1 + 1e-12), 1, d) ==
            doctest::Approx(cosine_objective(alpha * (1 - 1e-12), 1, d)).epsilon(1e-9));
  }
}

TEST_CASE("the entropy factor is 1 at 512") {
  CHECK(entropy_factor(512) == doctest::Approx(1).epsilon(1e-15));
}

TEST_CASE("the exact objective of two equal scores is alpha over 2") {
  const double scores[] = {3, 3};
  CHECK(exact_objective(1.5, scores) == doctest::Approx(0.75));
}
