#include "tests/cuda/wavelet.h"

#include "ops/elementwise_formula.h"

static_assert(VITRINE_COMPILES_KERNELS, "without a kernel the test of this op would test nothing");

namespace vitrine::test {
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

Tensor wavelet(const Tensor& x) { return elementwise(Wavelet{0.5}, x); }

}  // namespace vitrine::test
