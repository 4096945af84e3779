// A formula from outside on the device: wavelet.cu compiles it, as a user's file would.
#include <doctest/doctest.h>

#include <string>

#include "tests/cuda/device.h"
#include "tests/cuda/wavelet.h"
#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("a formula passes on the device every check of the library's own ops") {
  if (!test::has_gpu()) return;
  const spec::Spec row = {.name = "wavelet",
                          .call = [](const std::vector<Tensor>& x) { return test::wavelet(x[0]); },
                          .samples = {{{{3, 5}}}, {{{130}}}, {{{2, 64}, -1, 1}}},
                          .not_finite = false,
                          .largest = 4,
                          .reason = "∞·e^−∞ is NaN, and rounding of the exponent grows with x²"};
  const std::string errors = spec::check_all({row});
  CHECK_MESSAGE(errors.empty(), errors);
}
