// Values and gradients against reference cases, on the CPU. tests/cuda/truth_cases_test.cpp has them on a GPU.
#include <doctest/doctest.h>

#include "tests/cases.h"
#include "tests/data.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reference cases: values and gradients at 1e-9") {
  const auto skips = read_skips("tests/nn/truth_cases_skips.txt");
  const TruthAdapters adapters = truth_adapters();
  int run = 0, run_in_float32 = 0;
  for (const TruthCase& c : truth_cases()) {
    if (skips.count(c.op)) continue;
    INFO(c.name);
    ++run;
    CHECK_MESSAGE(adapters.count(c.op), "the op ", c.op, " is neither run nor skipped with a reason");
    if (!adapters.count(c.op)) continue;
    CHECK(check_truth(c, adapters.at(c.op)) == "");
    // How far float32 may be off was measured for the default cases. Of other ones it is said, but no failure.
    const std::string in_float32 = check_float32(c, adapters.at(c.op));
    if (is_default_data_directory())
      CHECK(in_float32 == "");
    else
      WARN(in_float32 == "");
    if (c.float32_drift) ++run_in_float32;
  }
  if (!is_default_data_directory()) return;
  CHECK(run == 60);
  CHECK(run_in_float32 == 60);
}
