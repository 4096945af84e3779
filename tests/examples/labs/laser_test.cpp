// The lab on LASER: its numbers are the known ones.
#include "tests/examples/labs/lab.h"

using namespace vitrine;
using test::LabRun, test::near;

namespace {

void check_gradients(const LabRun& run) {
  const auto rows = run.table("Two keys: the size of ∂o/∂s");
  REQUIRE(rows.size() == 7);
  CHECK(near(rows[1][6], 0.980, 1e-3));  // Δs = −4, Δv = 10: LASER, and standard
  CHECK(near(rows[1][5], 0.177, 1e-3));
  CHECK(near(rows[5][6], 0.018, 1e-3));  // Δs = 4
  CHECK(near(rows[5][5], 0.177, 1e-3));
  for (const auto& row : run.table("The limit 1 − α₁ minus LASER's ∂o/∂s₁")) {
    CHECK(near(row[1], 1 / (1 + std::exp(row[0])), 1e-4));
    for (size_t i = 2; i < row.size(); ++i) CHECK(row[i] >= 0);
    CHECK(row[4] < 1e-4);  // Δv = 20
  }
  // The criterion and the bounds hold without exception, and the bound is tight.
  CHECK(run.value("cells that disagree with the condition") == 0);
  CHECK(run.value("gradients above their bound") == 0);
  CHECK(run.value("largest share of LASER's bound, per cent") > 99);
  CHECK(run.value("outputs outside their bounds") == 0);
  CHECK(run.value("keys with opposite signs") > 0);
}

void check_rounding(const LabRun& run) {
  const auto errors =
      run.table("The largest error of the output over spreads from 0.001 to 100, in per cent");
  REQUIRE(errors.size() == 3);  // float32, bfloat16, float16: published, robust
  const double limits[] = {1e-3, 0.5, 0.1};
  for (size_t i = 0; i < errors.size(); ++i) {
    CHECK(errors[i][1] < limits[i]);
    CHECK(errors[i][0] > 20 * errors[i][1]);
  }
  CHECK(run.value("points where the published form is not finite") > 0);
  CHECK(run.value("points where the library's form is not finite") == 0);
  const auto direct = run.table("log(a·e^v) without the shift");
  REQUIRE(direct.size() == 3);
  CHECK(near(direct[0][0], 88.72, 0.01));
  CHECK(near(direct[2][0], 11.09, 0.01));
  CHECK(direct[2][1] < direct[0][1]);  // float16 collapses at smaller values
}

}  // namespace

TEST_CASE("the lab on LASER has the known numbers and the tables of docs/laser.md") {
  const LabRun run = test::run_lab(VITRINE_LASER, "docs/laser.md", 7 + 5 + 4 + 3);
  check_gradients(run);
  check_rounding(run);
  for (const auto& row : run.table("LSE − max over 100 draws of n normal values")) {
    CHECK(row[1] >= 0);
    CHECK(row[2] <= row[4]);
    CHECK(row[3] == row[4]);  // equal values: ln n
  }
  const auto shares = run.table("The spread of normal scores whose share below 10⁻⁷ is nearest to 20 %");
  REQUIRE(shares.size() == 4);
  for (const auto& row : shares) CHECK(near(row[3], 0.2, 0.05));
  const auto cost = run.table("Training steps of a GPT: 2 layers, width 128, 4 heads, 1024 tokens, float32");
  REQUIRE(cost.size() == 3);
  for (const auto& row : cost) CHECK(near(row[6], row[5] / row[4], 0.02));
}
