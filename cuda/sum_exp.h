// Σ eˣ of a row in one pass (Milakov and Gimelshein 2018): the largest element so far, and the sum of e^(x − largest); where
// a larger one comes, the sum is scaled down once.
#pragma once

#include "core/math.h"
#include "cuda/block.h"

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

/// The two as one. Where both are alike nothing is scaled: ∞ − ∞ has no value.
template <class T>
__device__ SumExp<T> merge(SumExp<T> a, SumExp<T> b) {
  const T largest = a.largest >= b.largest || a.largest != a.largest ? a.largest : b.largest;
  const auto scaled = [&](const SumExp<T>& part) {
    return part.largest == largest ? part.total : part.total * math::exp(part.largest - largest);
  };
  return {largest, scaled(a) + scaled(b)};
}

/// Of a row of n elements that a block reads together, known to each of its threads.
template <class S>
__device__ SumExp<Wide<S>> sum_exp(const S* row, int64_t n) {
  using T = Wide<S>;
  SumExp<T> mine{minus_infinity<T>(), T(0)};
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    mine = merge(mine, SumExp<T>{static_cast<T>(row[i]), T(1)});
  return merge_block(mine, [](SumExp<T> a, SumExp<T> b) { return merge(a, b); });
}

/// The same as Σ eˣ = e^shift·total with a finite shift: where the largest is not finite, e^largest alone: 0, ∞ or NaN.
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
