// Squares of gradients in vectors: of what size a gradient may be, and their sums. Read again for each instruction set.
#if defined(VITRINE_OPTIM_CPU_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VITRINE_OPTIM_CPU_SQUARES_INL_H_
#undef VITRINE_OPTIM_CPU_SQUARES_INL_H_
#else
#define VITRINE_OPTIM_CPU_SQUARES_INL_H_
#endif

#include "core/simd/vector_loop-inl.h"
#include "optim/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

/// optim::limited for vectors.
template <class T>
HWY_INLINE Vec<T> limited(Vec<T> g, T largest = optim::kLargestGradient<T>) {
  const Vec<T> most(largest);
  return max_of_numbers(min_of_numbers(g, most), -most) + g * Vec<T>(T(0));
}

/// The squares of x in double, a float's in two sums: its square in float could overflow, or vanish.
template <class T>
HWY_INLINE Vec<double> wide_squares(Vec<T> x) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return x * x;
  } else {
#if HWY_TARGET == HWY_SCALAR  // whose vectors have no halves
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

template <class T>
HWY_INLINE double sum_of_squares(const T* x, size_t n) {
  Vec<double> sum(0.0);
  for_each_vector<T>(n, [&](auto get, auto) HWY_ATTR { sum += wide_squares(get(x)); });
  return reduce_sum(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_OPTIM_CPU_SQUARES_INL_H_
