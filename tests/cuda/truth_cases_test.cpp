// Values and gradients against reference cases, on the device.
#include <doctest/doctest.h>

#include "tests/cuda/device.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reference cases on the device: values and gradients at 1e-9") {
  if (!has_gpu()) return;
  check_truth_cases("truth_cases", 83, Device::cuda);
}

TEST_CASE("reference cases on the device of the second set: values and gradients at 1e-9") {
  if (!has_gpu()) return;
  check_truth_cases("truth_cases_2", 180, Device::cuda);
}
