// Values and gradients against reference cases, on the CPU. tests/cuda/truth_cases_test.cpp has them on a GPU.
#include <doctest/doctest.h>

#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

/// How far float32 may be off was measured for the golden cases. For others it is reported, but is not a failure.
void check_folders(const std::string& name, int expected) {
  for (const CaseFolder& folder : case_folders(name)) {
    CAPTURE(folder.path.string());
    const TruthRun run = run_truth_cases(folder, Device::cpu);
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

TEST_CASE("reference cases: values and gradients at 1e-9") { check_folders("truth_cases", 60); }

TEST_CASE("reference cases of the second set: values and gradients at 1e-9") {
  check_folders("truth_cases_2", 46);
}

TEST_CASE("random cases that JAX has computed: values and gradients at 1e-9") {
  check_folders("jax_cases", 48);
}

TEST_CASE("the list of skips names no op that has an adapter") {
  const TruthAdapters adapters = truth_adapters();
  for (const auto& skip : read_skips("tests/nn/truth_cases_skips.txt")) {
    INFO(skip.first);
    CHECK(adapters.count(skip.first) == 0);
  }
}
