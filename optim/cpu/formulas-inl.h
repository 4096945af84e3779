// The formulas of the update rules (optim/formulas-inl.h) for vectors, and sums of squares.
// Included again for each instruction set.
#if defined(VITRINE_OPTIM_CPU_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VITRINE_OPTIM_CPU_FORMULAS_INL_H_
#undef VITRINE_OPTIM_CPU_FORMULAS_INL_H_
#else
#define VITRINE_OPTIM_CPU_FORMULAS_INL_H_
#endif

#include "core/simd/vector_loop-inl.h"
#include "optim/formulas.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

/// optim::limited for vectors.
template <class T>
HWY_INLINE Vec<T> limited(Vec<T> g, T largest = optim::kLargestGradient<T>) {
  const Vec<T> most(largest);
  return max_of_numbers(min_of_numbers(g, most), -most) + g * Vec<T>(T(0));
}

/// optim::in_denominator and optim::at_least_normal for vectors.
template <class V>
HWY_INLINE V in_denominator(double eps) {
  return V(optim::in_denominator<typename V::Scalar>(eps));
}
template <class V>
HWY_INLINE V at_least_normal(double eps) {
  return V(optim::at_least_normal<typename V::Scalar>(eps));
}

namespace formulas {
#include "optim/formulas-inl.h"
}  // namespace formulas

/// The squares of x in double. A vector of floats gives the sum of two vectors, because its squares
/// in float could overflow or underflow.
template <class T>
HWY_INLINE Vec<double> wide_squares(Vec<T> x) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return x * x;
  } else {
#if HWY_TARGET == HWY_SCALAR  // its vectors have no halves
    const Vec<double> wide = hn::PromoteTo(Tag<double>(), x.raw);
    return wide * wide;
#else
    const hn::Half<Tag<T> > half;
    const Vec<double> low = hn::PromoteTo(Tag<double>(), hn::LowerHalf(half, x.raw));
    const Vec<double> high = hn::PromoteTo(Tag<double>(), hn::UpperHalf(half, x.raw));
    return low * low + high * high;
#endif
  }
}

template <class T, class X>
HWY_INLINE double sum_of_squares(X x, size_t n) {
  Vec<double> sum(0.0);
  for_each_vector<T>(n, [&](auto get, auto) HWY_ATTR { sum += wide_squares(get(x)); });
  return reduce_sum(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_OPTIM_CPU_FORMULAS_INL_H_
