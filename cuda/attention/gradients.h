// Code that the two kernels of attention's backward share (cuda/attention/launch.h).
#pragma once

#include "cuda/attention/laser.h"

namespace vitrine::cuda {

template <class S>
struct Cotangents {
  using T = AccumulatorOf<S>;
  Heads<S> dy, y, rest;  // y and rest for a mean; rest: the rounding error of y, if any
  Heads<T> kept;         // for LASER, see Anchor::keeps_whole()
  const T* lse;
  const T* dlse;   // null for 0
  Heads<T> dbias;  // the gradients of the scores after the softcap, if they are wanted
};

/// An element of y before rounding.
template <class S>
__device__ AccumulatorOf<S> unrounded(const HeadMatrix<S>& y, const HeadMatrix<S>& rest, int i, int d) {
  const auto rounded = static_cast<AccumulatorOf<S>>(y.row(i)[d]);
  return rest.data ? rounded + static_cast<AccumulatorOf<S>>(rest.row(i)[d]) : rounded;
}

/// The results that the first kernel writes for the second kernel, per head.
template <class S>
struct Kept {
  AccumulatorOf<S>* correction;  // D [Tq]
  AccumulatorOf<S>* anchors;     // LASER's [tiles, 2, Dv]
  int* exact;                    // [tiles]: whether any element was computed exactly
  Heads<S> h;                    // LASER's H, in float16 the bits of a bfloat16; dy for a mean
};

/// dy·b of one element (i, d) and a key with log P = `log_weight`; 0 unless the element was
/// computed exactly.
template <class T>
__device__ T exact_term(const Anchor<T>& anchor, T kept, T dy, T v, T log_weight) {
  return anchor.out_of_range(kept - anchor.c) ? dy * math::exp(log_weight + (v - kept)) : T(0);
}

/// log P of a score; −∞ if the key is hidden, or if the query sees no key (then lse is −∞).
template <class T>
__device__ T log_weight(T score, T lse) {
  return score == -static_cast<T>(INFINITY) ? score : score - lse;
}

/// P·(dP − D); 0 if P is 0, even if dP is infinite.
template <class T>
__device__ T score_gradient(T p, T dp, T correction) {
  return p == T(0) ? T(0) : p * (dp - correction);
}

/// Stores a warp's accumulator of a gradient times `by`, for columns from `first` on and rows from
/// `own` on, as far as they exist.
template <class S, class T, int kHeight>
__device__ void write_gradient(const HeadMatrix<S>& x, Accumulator<T, kHeight>& accumulator, int own, int end,
                               int first, int columns, T by) {
  each(
      [&](Coordinates at, T& value) {
        if (own + at.row < end && first + at.column < columns)
          x.row(own + at.row)[first + at.column] = S(value * by);
      },
      accumulator);
}

}  // namespace vitrine::cuda
