// The lab on the scale of attention: its numbers are the known ones.
#include "tests/examples/labs/lab.h"

using namespace vitrine;
using test::LabRun, test::near;

namespace {

/// α*, to all digits that are printed.
void check_optima(const LabRun& run) {
  const auto gains = run.table("α(1 − Σp²) divided by its value at α = 1");
  const double optima[] = {1.549439, 1.863493, 2.146531, 2.405463};
  REQUIRE(gains.size() == std::size(optima));
  for (size_t i = 0; i < gains.size(); ++i) CHECK(near(gains[i][1], optima[i], 1e-6));
  const auto& at_1024 = gains[2];  // n, α*, then approximate and sampled gains at α* and at 2.5
  CHECK(near(at_1024[2], 1.942, 1e-3));
  CHECK(near(at_1024[3], 2.071, 0.02));  // samples
  CHECK(near(at_1024[4], 1.239, 1e-3));
  CHECK(near(at_1024[5], 2.330, 0.03));
  CHECK(run.value("largest error of the closed form") < 1e-13);
  CHECK(run.value("α* reaches 2 at n") == 491);
  CHECK(run.value("α* reaches 3 at n") == 153959);
  CHECK(near(run.value("2.5 is optimal at n"), 6990, 5));
  CHECK(run.value("largest error of 0.84·√(ln n), per cent") == 12.5);
}

void check_cosines(const LabRun& run) {
  CHECK(near(run.value("α* for n = 1000"), 26.020597, 1e-6));
  CHECK(near(run.value("α* for n = 1024"), 26.083826, 1e-6));
  CHECK(near(run.value("α* for n = 20000"), 33.683825, 1e-6));
  CHECK(near(run.value("largest error of 3.5·ln n, per cent"), 23, 0.5));
  for (const auto& row : run.table("The factor of ln n by least squares, n from 40 to 20000")) {
    if (row[0] == 16) CHECK(near(row[1], 2.41, 0.01));
    if (row[0] == 128) CHECK(near(row[1], 3.49, 0.01));
    if (row[0] == 512) CHECK(near(row[1], 6.49, 0.01));
  }
  const auto angles = run.table("Cosines against the density (1 − s²)^((d − 3)/2)");
  REQUIRE(angles.size() == 3);
  for (const auto& row : angles) {  // d, mean of s², 1/d, distance, limit
    CHECK(near(row[1], row[2], 0.02 * row[2]));
    CHECK(row[3] < row[4]);
  }
}

}  // namespace

TEST_CASE("the lab on the scale of attention has the known numbers and the tables of docs/scale.md") {
  const LabRun run = test::run_lab(VITRINE_ATTENTION_SCALE, "docs/scale.md", 3 + 6 + 8 + 5);
  check_optima(run);
  check_cosines(run);
  const auto decoder = run.table("One α for all positions of a decoder, n = L/2");
  const double constants[] = {1.863493, 2.008395, 2.146531, 2.278673};
  REQUIRE(decoder.size() == std::size(constants));
  for (size_t i = 0; i < decoder.size(); ++i) {
    CHECK(near(decoder[i][1], constants[i], 1e-6));
    CHECK(near(decoder[i][3], decoder[i][4], 0.03 * decoder[i][4]));
  }
  for (const auto& layer : run.table("A GPT at initialization: 4 layers, 4 heads of 64 channels"))
    CHECK(near(layer[4], layer[3], 0.1 * layer[3]));  // σ⁴D
  for (const auto& error : run.table("Sinusoidal positions: 64 channels, 256 positions, float64"))
    CHECK(error.back() < 1e-12);
}
