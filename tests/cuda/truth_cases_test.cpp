// Values and gradients against reference cases, on the device.
#include <doctest/doctest.h>

#include "tests/cuda/device.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

/// How far float32 may be off was measured for the golden cases. For others it is reported, but is not a failure.
void check_folders(const std::string& name, int expected) {
  for (const CaseFolder& folder : case_folders(name)) {
    CAPTURE(folder.path.string());
    const TruthRun run = run_truth_cases(folder, Device::cuda);
    CHECK(run.in_float64.failures() == "");
    if (folder.golden) {
      CHECK(run.in_float32.failures() == "");
      CHECK(run.in_float64.ran() == expected);
      CHECK(run.in_float32.ran() == expected);
    } else {
      WARN(run.in_float32.failures() == "");
    }
  }
}

}  // namespace

TEST_CASE("reference cases on the device: values and gradients at 1e-9") {
  if (!has_gpu()) return;
  check_folders("truth_cases", 60);
}

TEST_CASE("reference cases on the device of the second set: values and gradients at 1e-9") {
  if (!has_gpu()) return;
  check_folders("truth_cases_2", 46);
}
