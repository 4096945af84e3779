// The products of attention: A·Bᵀ of two tiles, and W·B, where W is an accumulator that a warp has
// just computed and B is a tile.
//
// bfloat16 and float16 are multiplied on tensor cores, with float32 sums. Two neighbouring results,
// rounded to 16 bits, have the layout of a left operand. So weights go from one product into the
// next without leaving their registers. float32 and float64 are multiplied number by number, and
// weights go through shared memory.
#pragma once

#include "cuda/attention/tile.h"
#include "cuda/instructions/exp2.h"
#include "cuda/instructions/mma.h"
#include "cuda/instructions/pack.h"

namespace vitrine::cuda {

template <class S>
inline constexpr bool kTensorCores = sizeof(S) == 2;

/// The dtype of LASER's F and H: bfloat16 in place of float16, whose range is too small. In memory
/// they are in arrays of S.
template <class S>
using LaserDType = std::conditional_t<std::is_same_v<S, float16>, bfloat16, S>;

/// Conversions between numbers of that dtype and arrays of S; the bits are kept.
template <class S>
__device__ S laser_bits(AccumulatorOf<S> x) {
  if constexpr (std::is_same_v<S, float16>) {
    S at;
    at.bits = bfloat16(x).bits;
    return at;
  } else {
    return S(x);
  }
}
template <class S>
__device__ AccumulatorOf<S> laser_value(S at) {
  if constexpr (std::is_same_v<S, float16>) {
    bfloat16 x;
    x.bits = at.bits;
    return static_cast<float>(x);
  } else {
    return static_cast<AccumulatorOf<S>>(at);
  }
}

/// Calls f(Type<V>{}), where V is the dtype of v and dy (S), or of LASER's F and H.
template <class S, class F>
__device__ void visit_values(bool laser, F&& f) {
  if constexpr (std::is_same_v<S, float16>)
    if (laser) return f(Type<LaserDType<S>>{});
  f(Type<S>{});
}

/// The 16 × 16 elements from a tile's row and column on: as A, or as the B of A·Bᵀ.
template <class S>
__device__ Fragment fragment(const S* rows, int stride, int row, int column) {
  const int lane = threadIdx.x % kWarp;
  return load_matrices<false>(rows + (row + lane % 16) * stride + column + lane / 16 * 8);
}
/// The same elements as the B of A·B.
template <class S>
__device__ Fragment fragment_across(const S* rows, int stride, int row, int column) {
  const int lane = threadIdx.x % kWarp;
  return load_matrices<true>(rows + (row + lane / 16 * 8 + lane % 8) * stride + column + lane / 8 % 2 * 8);
}

/// c += a·b for the 16 columns from 16·pair on. b comes from one of the two functions above.
template <class S, int kHeight>
__device__ void multiply_fragments(Accumulator<float, kHeight>& c, int pair, const Fragment (&a)[kHeight],
                                   const Fragment& b) {
#pragma unroll
  for (int r = 0; r < kHeight; ++r)
#pragma unroll
    for (int n = 0; n < 2; ++n)
      multiply_accumulate<S>(c.at[r][2 * pair + n], a[r], b.quarter[n], b.quarter[n + 2]);
}

/// c += A·B over `depth`, number by number. A has 16 rows with stride a_stride, and B(k, n) =
/// b[k·along + n·across].
template <class T>
__device__ void multiply(Accumulator<T>& c, const T* a, int a_stride, const T* b, int along, int across,
                         int depth) {
  const int lane = threadIdx.x % kWarp;
  a += lane / 4 * a_stride;
  b += lane % 4 * 2 * across;
#pragma unroll 1
  for (int k = 0; k < depth; ++k) {
    const T a0 = a[k], a1 = a[8 * a_stride + k];
#pragma unroll
    for (int block = 0; block < kAccumulatorColumns / 8; ++block) {
      const T b0 = b[k * along + 8 * block * across], b1 = b[k * along + (8 * block + 1) * across];
      T(&sum)[4] = c.at[0][block];
      sum[0] = std::fma(a0, b0, sum[0]), sum[1] = std::fma(a0, b1, sum[1]);
      sum[2] = std::fma(a1, b0, sum[2]), sum[3] = std::fma(a1, b1, sum[3]);
    }
  }
}

/// c += A·Bᵀ over the first `depth` columns. `a` is the first row of A, and B is a tile of 32 rows.
template <class S, class T, int kHeight>
__device__ void multiply_transposed(Accumulator<T, kHeight>& c, const S* a, const SharedMatrix<S>& b,
                                    int depth) {
  if constexpr (kTensorCores<S>) {
#pragma unroll 4
    for (int k = 0; k < depth; k += 16) {
      Fragment rows[kHeight];
#pragma unroll
      for (int r = 0; r < kHeight; ++r) rows[r] = fragment(a, b.stride, 16 * r, k);
#pragma unroll
      for (int pair = 0; pair < kAccumulatorColumns / 16; ++pair)
        multiply_fragments<S>(c, pair, rows, fragment(b.data, b.stride, 16 * pair, k));
    }
  } else {
    multiply(c, a, b.stride, b.data, 1, b.stride, depth);
  }
}

/// An accumulator as the left operand of W·B. `shared` is the warp's first row in a tile of 32
/// columns, for scalar products.
template <class S, int kHeight>
class Weights {
 public:
  __device__ Weights(Accumulator<S, kHeight>& w, S* shared) : rows_(shared) { share(rows_, kStride, w); }

  /// c += W·B for the 32 columns of B from `column` on.
  __device__ void multiply_by(Accumulator<S, kHeight>& c, const SharedMatrix<S>& b, int column) const {
    multiply(c, rows_, kStride, b.data + column, b.stride, 1, kAccumulatorColumns);
  }

 private:
  static constexpr int kStride = kAccumulatorColumns + SharedMatrix<S>::kChunk;
  S* rows_;
};

template <class S, int kHeight>
requires kTensorCores<S>
class Weights<S, kHeight> {
 public:
  __device__ Weights(Accumulator<float, kHeight>& w, float*) {
#pragma unroll
    for (int pair = 0; pair < kAccumulatorColumns / 16; ++pair)
#pragma unroll
      for (int r = 0; r < kHeight; ++r)
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) {
          const float* const two = &w.at[r][2 * pair + quarter / 2][quarter % 2 * 2];
          rows_[pair][r].quarter[quarter] = pack<S>(two[0], two[1]);
        }
  }

  __device__ void multiply_by(Accumulator<float, kHeight>& c, const SharedMatrix<S>& b, int column) const {
#pragma unroll
    for (int depth = 0; depth < kAccumulatorColumns / 16; ++depth)
#pragma unroll
      for (int pair = 0; pair < kAccumulatorColumns / 16; ++pair)
        multiply_fragments<S>(c, pair, rows_[depth],
                              fragment_across(b.data, b.stride, 16 * depth, column + 16 * pair));
  }

 private:
  Fragment rows_[kAccumulatorColumns / 16][kHeight];
};

}  // namespace vitrine::cuda
