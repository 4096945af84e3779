// Values and gradients against reference cases, on the CPU. tests/cuda/truth_cases_test.cpp runs
// them on a GPU.
#include <doctest/doctest.h>

#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reference cases: values and gradients at 1e-9") {
  check_truth_cases("truth_cases", 83, Device::cpu);
}

TEST_CASE("reference cases of the second set: values and gradients at 1e-9") {
  check_truth_cases("truth_cases_2", 180, Device::cpu);
}

TEST_CASE("random cases that JAX has computed: values and gradients at 1e-9") {
  check_truth_cases("jax_cases", 48, Device::cpu);
}

TEST_CASE("the list of skips names no op that has an adapter") {
  const TruthAdapters adapters = truth_adapters();
  for (const auto& skip : read_skips("tests/nn/truth_cases_skips.txt")) {
    INFO(skip.first);
    CHECK(adapters.count(skip.first) == 0);
  }
}
