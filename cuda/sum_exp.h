// Σ eˣ of a row in one pass (Milakov and Gimelshein 2018): the loop keeps the largest element so
// far, and the sum of e^(x − largest). When a larger element comes, the sum is scaled down once.
#pragma once

#include "core/math.h"
#include "cuda/held_rows.h"
#include "cuda/instructions/exp2.h"

namespace vitrine::cuda {

/// total = Σ e^(x − largest) of some elements.
template <class T>
struct SumExp {
  T largest, total;
};

template <class T>
__device__ T minus_infinity() {
  return -static_cast<T>(INFINITY);
}

/// The larger of a and b; NaN if a or b is NaN.
template <class T>
__device__ T larger(T a, T b) {
  return a >= b || a != a ? a : b;
}

/// The SumExp of both parts together. If their largest elements are equal, nothing is scaled,
/// because ∞ − ∞ is NaN.
template <class T>
__device__ SumExp<T> merge(SumExp<T> a, SumExp<T> b) {
  const T largest = larger(a.largest, b.largest);
  const auto scaled = [&](const SumExp<T>& part) {
    return part.largest == largest ? part.total : part.total * math::exp(part.largest - largest);
  };
  return {largest, scaled(a) + scaled(b)};
}

/// e^(x − largest), also if both are the same infinity. The exponential is computed in any case: to
/// choose a result costs less than a jump.
template <class S>
__device__ AccumulatorOf<S> exp_below(AccumulatorOf<S> x, AccumulatorOf<S> largest) {
  const AccumulatorOf<S> e = exp_for<S>(x - largest);
  return x == largest ? AccumulatorOf<S>(1) : e;
}

/// Adds further elements to `sum`, which is scaled at most once for all of them. `fmax`, which is
/// one instruction, ignores NaN; then the total is NaN.
template <class S, class T, int N>
__device__ SumExp<T> merge(SumExp<T> sum, const Vector<T, N>& x) {
  T largest = sum.largest;
  for (int k = 0; k < N; ++k) largest = std::fmax(largest, x.at[k]);
  T total = sum.largest == largest ? sum.total : sum.total * exp_for<S>(sum.largest - largest);
  for (int k = 0; k < N; ++k) total += exp_below<S>(x.at[k], largest);
  return {largest, total};
}

/// The largest of the values of a block's threads, or of a warp's if it is alone in its row; NaN is
/// ignored.
template <class T>
__device__ T largest_of_block(T mine) {
  return merge_block(mine, [](T a, T b) { return std::fmax(a, b); });
}

/// The sum of the totals of a block's threads, whose largest element is known. If an element is
/// NaN, both are NaN.
template <class T>
__device__ SumExp<T> sum_totals(T largest, T total) {
  total = sum_block(total);
  return {total != total ? total : largest, total};
}

/// The SumExp of a row of n elements, which the threads of a block read together. Each thread gets
/// the result.
template <class S>
__device__ SumExp<AccumulatorOf<S>> sum_exp(const S* row, int64_t n) {
  using T = AccumulatorOf<S>;
  SumExp<T> mine{minus_infinity<T>(), T(0)};
  const auto widen = [](S x) { return static_cast<T>(x); };
  for_each_vector(
      n, [&](int64_t i, auto lanes) { mine = merge<S>(mine, map<lanes>(widen, load<lanes>(row + i))); }, row);
  // First the largest element of the block: then each thread scales once, and not at every merge.
  const T largest = largest_of_block(mine.largest);
  return sum_totals(largest, mine.total * exp_below<S>(mine.largest, largest));
}

/// The same for a row that the threads hold, with −∞ as padding: two passes over registers.
template <class S>
__device__ SumExp<AccumulatorOf<S>> sum_exp(const HeldElements<S>& held) {
  using T = AccumulatorOf<S>;
  T mine = minus_infinity<T>(), total = 0;
#pragma unroll
  for (const auto& vector : held.at)
    for (const T x : vector.at) mine = std::fmax(mine, x);
  const T largest = largest_of_block(mine);
#pragma unroll
  for (const auto& vector : held.at)
    for (const T x : vector.at) total += exp_below<S>(x, largest);
  return sum_totals(largest, total);
}

/// A SumExp as Σ eˣ = e^shift·total with a finite shift. If the largest element is not finite, the
/// total is e^largest: 0, ∞ or NaN.
template <class T>
struct ShiftedTotal {
  T shift, total;
};
template <class T>
__device__ ShiftedTotal<T> with_finite_shift(const SumExp<T>& sum) {
  if (math::is_finite(sum.largest)) return {sum.largest, sum.total};
  return {T(0), math::exp(sum.largest)};
}

}  // namespace vitrine::cuda
