#include "squareplus.h"

#include <vitrine/ops/elementwise_formula.h>

namespace outside {

using namespace vitrine;

namespace {

struct Squareplus {
  static constexpr const char* kName = "squareplus";
  double b;
  template <class T>
  VITRINE_HD T value(T x) const {
    return T(0.5) * (x + sqrt(x * x + T(b)));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
#ifdef PLANTED_MISTAKE
    return T(0.51) * (T(1) + x * rsqrt(x * x + T(b)));
#else
    return T(0.5) * (T(1) + x * rsqrt(x * x + T(b)));
#endif
  }
};

}  // namespace

Tensor squareplus(const Tensor& x, double b) {
  check(b > 0, "squareplus: b is {}, wanted a number above 0", b);
  return elementwise(Squareplus{b}, x);
}

}  // namespace outside
