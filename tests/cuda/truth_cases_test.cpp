// The reference cases on the device: values and gradients at 1e-9 in float64, and in float32.
#include <doctest/doctest.h>

#include "tests/cases.h"
#include "tests/cuda/device.h"
#include "tests/data.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reference cases on the device") {
  if (!has_gpu() || !data_directory()) return;
  const auto skips = read_skips("tests/nn/truth_cases_skips.txt");
  const TruthAdapters adapters = truth_adapters();
  // In a copy of the default cases, such as one beside a GPU, float32 has to do as well; others may ask for more than it has.
  constexpr int kDefault = 60;
  int run = 0, close = 0;
  for (const TruthCase& c : truth_cases()) {
    if (skips.count(c.op) || !adapters.count(c.op)) continue;
    INFO(c.name);
    CHECK(check_truth(c, adapters.at(c.op), Device::cuda) == "");
    const std::string in_float32 = check_float32(c, adapters.at(c.op), Device::cuda);
    WARN(in_float32 == "");
    close += in_float32 == "" ? 1 : 0;
    ++run;
  }
  CHECK(run > 0);
  if (is_default_data_directory()) CHECK(run == kDefault);
  if (run == kDefault) CHECK(close == run);
}
