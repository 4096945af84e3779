// The reference cases on the device: values and gradients at 1e-9 in float64, and in float32.
#include <doctest/doctest.h>

#include "tests/cases.h"
#include "tests/cuda/device.h"
#include "tests/data.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reference cases on the device") {
  if (!has_gpu()) return;
  const auto skips = read_skips("tests/nn/truth_cases_skips.txt");
  const TruthAdapters adapters = truth_adapters();
  int run = 0;
  for (const TruthCase& c : truth_cases()) {
    if (skips.count(c.op) || !adapters.count(c.op)) continue;
    INFO(c.name);
    CHECK(check_truth(c, adapters.at(c.op), Device::cuda) == "");
    const std::string in_float32 = check_float32(c, adapters.at(c.op), Device::cuda);
    if (is_default_data_directory())
      CHECK(in_float32 == "");
    else
      WARN(in_float32 == "");
    ++run;
  }
  if (is_default_data_directory()) CHECK(run == 60);
}
