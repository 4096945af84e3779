// Loops over rows in vectors, for kernels that are compiled once per instruction set
// (core/simd/dispatch.h). The function f is a lambda on vectors, marked HWY_ATTR:
//
//   // softmax from its sum
//   map(n, y, [&](Vec<T> v) HWY_ATTR { return exp(v - shift) * scale; }, x);
//   // n · variance
//   T s = map_sum<T>(n, [&](Vec<T> v) HWY_ATTR { v -= mean; return v * v; }, x);
//
// Rows have elements of type T = float or double; for T = float, also bfloat16 or float16. The
// result of an element does not depend on its position in the row, and a sum depends only on n and
// the instruction set.
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

#include "core/simd/dispatch.h"
#include "core/simd/vector-inl.h"
#include "core/simd/vector_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

/// y[i] = f(x[i]…) for i < n. y may be one of the x.
template <class F, class D, class... S>
HWY_INLINE void map(size_t n, D* y, F f, const S*... x) {
  constexpr size_t N = kLanes<AccumulatorOf<D>>;
  size_t i = 0;
  for (; i + N <= n; i += N) store(y + i, f(load(x + i)...));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)...), n - i);
}

/// The same with stores that bypass the caches, for rows of float or double. Use it for results too
/// large to stay in the cache until they are read. It is then twice as fast, because memory is not
/// read before it is written.
template <class F, class T, class... S>
HWY_INLINE void map_streaming(size_t n, T* y, F f, const S*... x) {
  constexpr size_t N = kLanes<T>;
  const size_t beyond =
      reinterpret_cast<uintptr_t>(y) / sizeof(T) % N;  // streaming stores require whole vectors
  size_t i = std::min(n, beyond == 0 ? 0 : N - beyond);
  map(i, y, f, x...);
  for (; i + N <= n; i += N) hn::Stream(f(load(x + i)...).raw, Tag<T>(), y + i);
  map(n - i, y + i, f, (x + i)...);
  hwy::FlushStream();
}

/// Calls f(get, put) for each vector of n elements; the last one may be partial. get(x) reads the
/// vector from a row, and put(y, v) writes it. A row is an array, or a pointer of
/// core/simd/pointers.h. For kernels that write several rows at once.
template <class T, class F>
HWY_INLINE void for_each_vector(size_t n, F&& f) {
  constexpr size_t N = kLanes<T>;
  size_t i = 0;
  for (; i + N <= n; i += N)
    f([i](auto x) HWY_ATTR { return load(x + i); }, [i](auto y, Vec<T> v) HWY_ATTR { store(y + i, v); });
  const size_t rest = n - i;
  if (rest > 0)
    f([i, rest](auto x) HWY_ATTR { return load_part(x + i, rest); },
      [i, rest](auto y, Vec<T> v) HWY_ATTR { store_part(y + i, v, rest); });
}

namespace detail {

/// totals[k] += Σ f(x[i]…)[k] over one block, in four vectors of partial sums; f(x[i]…)[0] is y[i].
template <class T, size_t K, class F, class D, class... S>
HWY_INLINE void add_block(std::array<double, K>& totals, size_t n, D* y, F f, const S*... x) {
  constexpr size_t N = kLanes<T>, kSums = 4;
  Vec<T> sums[kSums][K];
  for (auto& sum : sums)
    for (Vec<T>& s : sum) s = Vec<T>(0);
  size_t i = 0;
  const auto add = [&](Vec<T>* sum) HWY_ATTR {
    const std::array<Vec<T>, K> v = f(load(x + i)...);
    if (y != nullptr) store(y + i, v[0]);
    for (size_t k = 0; k < K; ++k) sum[k] += v[k];
    i += N;
  };
  while (i + kSums * N <= n)
    for (auto& sum : sums) add(sum);
  while (i + N <= n) add(sums[0]);
  if (i < n) {
    const std::array<Vec<T>, K> v = f(load_part(x + i, n - i)...);
    if (y != nullptr) store_part(y + i, v[0], n - i);
    for (size_t k = 0; k < K; ++k) sums[1][k] += select<T>({hn::FirstN(Tag<T>(), n - i)}, v[k], T(0));
  }
  for (size_t k = 0; k < K; ++k)
    totals[k] += reduce_sum((sums[0][k] + sums[1][k]) + (sums[2][k] + sums[3][k]));
}

/// The same over a whole row. Blocks of 256 vectors are summed in T, the blocks in double.
template <class T, size_t K, class F, class D, class... S>
HWY_INLINE std::array<T, K> sums_of_blocks(size_t n, D* y, F f, const S*... x) {
  constexpr size_t kBlock = 256 * kLanes<T>;  // 64 additions to each partial sum
  std::array<double, K> totals = {};
  for (size_t i = 0; i < n; i += kBlock)
    add_block<T>(totals, std::min(kBlock, n - i), y == nullptr ? nullptr : y + i, f, (x + i)...);
  std::array<T, K> result;
  for (size_t k = 0; k < K; ++k) result[k] = static_cast<T>(totals[k]);
  return result;
}

}  // namespace detail

/// y[i] = f(x[i]…) for i < n. Returns the sum of the values, before they are rounded to y's type. y
/// may be null, or one of the x.
template <class T, class F, class D, class... S>
HWY_INLINE T map_and_sum(size_t n, D* y, F f, const S*... x) {
  return detail::sums_of_blocks<T, 1>(
      n, y, [f](auto... v) HWY_ATTR { return std::array<Vec<T>, 1>{f(v...)}; }, x...)[0];
}

/// Σ f(x[i]…) for i < n.
template <class T, class F, class... S>
HWY_INLINE T map_sum(size_t n, F f, const S*... x) {
  return map_and_sum<T>(n, static_cast<T*>(nullptr), f, x...);
}

/// Σ f(x[i]…)[k] for i < n, for each k < K, in one pass.
template <class T, size_t K, class F, class... S>
HWY_INLINE std::array<T, K> map_sums(size_t n, F f, const S*... x) {
  return detail::sums_of_blocks<T, K>(n, static_cast<T*>(nullptr), f, x...);
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_CORE_VEC_LOOP_INL_H_
