// Loops over rows in vectors, for kernels that are compiled once per instruction set (core/simd.h). The
// function f is a lambda on vectors, marked HWY_ATTR:
//
//   map(n, y, [&](Vec<T> v) HWY_ATTR { return exp(v - shift) * scale; }, x);                    // softmax
//   from its sum T s = map_sum<T>(n, [&](Vec<T> v) HWY_ATTR { v -= mean; return v * v; }, x); // n · variance
//
// Rows may be of T = float or double, or of bfloat16 or float16 where T = float. An element's result does not
// depend on its position in the row, and a sum depends on n and the instruction set only.
#if defined(VITRINE_CORE_VEC_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VITRINE_CORE_VEC_LOOP_INL_H_
#undef VITRINE_CORE_VEC_LOOP_INL_H_
#else
#define VITRINE_CORE_VEC_LOOP_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/simd.h"
#include "core/vec-inl.h"
#include "core/vec_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

/// y[i] = f(x[i]…) for i < n. y may be one of the x.
template <class F, class D, class... S>
HWY_INLINE void map(size_t n, D* y, F f, const S*... x) {
  constexpr size_t N = kLanes<Wide<D>>;
  size_t i = 0;
  for (; i + N <= n; i += N) store(y + i, f(load(x + i)...));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)...), n - i);
}

/// The same past the caches, for rows of float or double: for results that are too large to be still there when they
/// are read. Twice as fast then, as memory need not be read before it is written.
template <class F, class T, class... S>
HWY_INLINE void map_streaming(size_t n, T* y, F f, const S*... x) {
  constexpr size_t N = kLanes<T>;
  const size_t beyond =
      reinterpret_cast<uintptr_t>(y) / sizeof(T) % N;  // streaming stores want whole vectors
  size_t i = std::min(n, beyond == 0 ? 0 : N - beyond);
  map(i, y, f, x...);
  for (; i + N <= n; i += N) hn::Stream(f(load(x + i)...).raw, Tag<T>(), y + i);
  map(n - i, y + i, f, (x + i)...);
  hwy::FlushStream();
}

namespace detail {

/// Σ f(x[i]…) over one block, in four vectors of partial sums.
template <class T, class F, class D, class... S>
HWY_INLINE T sum_block(size_t n, D* y, F f, const S*... x) {
  constexpr size_t N = kLanes<T>, kSums = 4;
  Vec<T> sums[kSums] = {Vec<T>(0), Vec<T>(0), Vec<T>(0), Vec<T>(0)};
  size_t i = 0;
  const auto add = [&](Vec<T>& sum) HWY_ATTR {
    const Vec<T> v = f(load(x + i)...);
    if (y != nullptr) store(y + i, v);
    sum += v;
    i += N;
  };
  while (i + kSums * N <= n)
    for (Vec<T>& sum : sums) add(sum);
  while (i + N <= n) add(sums[0]);
  if (i < n) {
    const Vec<T> v = f(load_part(x + i, n - i)...);
    if (y != nullptr) store_part(y + i, v, n - i);
    sums[1] += select<T>({hn::FirstN(Tag<T>(), n - i)}, v, T(0));
  }
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace detail

/// y[i] = f(x[i]…) for i < n, and returns their sum (of the values before they are rounded to y's type); y
/// may be null, or one of the x. Blocks of 256 vectors are summed in T, the blocks in double.
template <class T, class F, class D, class... S>
HWY_INLINE T map_and_sum(size_t n, D* y, F f, const S*... x) {
  constexpr size_t kBlock = 256 * kLanes<T>;  // 64 additions to each partial sum
  double total = 0;
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t size = std::min(kBlock, n - i);
    total += detail::sum_block<T>(size, y == nullptr ? nullptr : y + i, f, (x + i)...);
  }
  return static_cast<T>(total);
}

/// Σ f(x[i]…) for i < n.
template <class T, class F, class... S>
HWY_INLINE T map_sum(size_t n, F f, const S*... x) {
  return map_and_sum<T>(n, static_cast<T*>(nullptr), f, x...);
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_CORE_VEC_LOOP_INL_H_
