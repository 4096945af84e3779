// A formula from outside on the device: its kernel is compiled in this file, and the emulator runs
// it.
#include "ops/elementwise_formula.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/cuda/device.h"
#include "tests/spec/spec.h"

#if VITRINE_COMPILES_KERNELS

using namespace vitrine;

namespace {

/// x·e^(−a·x²).
struct Wavelet {
  static constexpr const char* kName = "wavelet";
  double a;

  template <class T>
  VITRINE_HD T value(T x) const {
    return x * exp(T(-a) * x * x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return (T(1) - T(2 * a) * x * x) * exp(T(-a) * x * x);
  }
};

}  // namespace

TEST_CASE("a formula passes on the device every check of the library's own ops") {
  if (!test::has_gpu()) return;
  const spec::Spec row = {
      .name = "wavelet",
      .call = [](const std::vector<Tensor>& x) { return elementwise(Wavelet{0.5}, x[0]); },
      .samples = {{{{3, 5}}}, {{{130}}}, {{{2, 64}, -1, 1}}},
      .not_finite = false,
      .largest = 4,
      .reason = "∞·e^−∞ is NaN, and rounding of the exponent grows with x²"};
  const std::string errors = spec::check_all({row});
  CHECK_MESSAGE(errors.empty(), errors);
}

#endif
