// Functions of rows for LASER's read, o = c + log(δ + Σ a·F) with F = e^(v − c) − δ. The anchor c
// and δ ∈ {0, 1} belong to a channel, and to a tile of queries or to a head (LaserHead in
// ops/cpu/attention/tile.h). If the visible values are within 2 of each other, c is their middle;
// if they are within 60, c is their minimum. In both cases δ = 1, so that nothing cancels for small
// values. Otherwise c = max − 60 and δ = 0, and elements that such a sum cannot represent are read
// exactly. All arrays have n channels. S, the type in memory, is float, double or bfloat16. All
// computations are in T = AccumulatorOf<S>.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace vitrine::cpu {

/// low = min(low, v), high = max(high, v) for rows of v that are `stride` apart.
template <class S>
void laser_extend_range(AccumulatorOf<S>* low, AccumulatorOf<S>* high, const S* v, int64_t stride,
                        int64_t rows, size_t n);
/// c and δ, from the range of the values.
template <class T>
void laser_anchor(T* c, T* delta, const T* low, const T* high, size_t n);
/// f = e^(v − c) − δ. A null δ, here and in laser_finish, is 1 in every channel.
template <class S>
void laser_values(S* f, const S* v, const AccumulatorOf<S>* c, const AccumulatorOf<S>* delta, size_t n);
/// y = c + log(δ + sum).
template <class S>
void laser_finish(S* y, const AccumulatorOf<S>* sum, const AccumulatorOf<S>* c, const AccumulatorOf<S>* delta,
                  size_t n);
/// h = dy/(δ + sum); returns Σ h·sum. Computed from the sum instead of y, because y is rounded at
/// the magnitude of c.
template <class S>
AccumulatorOf<S> laser_cotangent(S* h, const S* dy, const AccumulatorOf<S>* sum,
                                 const AccumulatorOf<S>* delta, size_t n);
/// dv = dv·(f + δ).
template <class S>
void laser_scale_value_gradient(AccumulatorOf<S>* dv, const S* f, const AccumulatorOf<S>* delta, size_t n);
/// dv += t·(f + δ).
template <class S>
void laser_add_value_gradient(AccumulatorOf<S>* dv, const AccumulatorOf<S>* t, const S* f,
                              const AccumulatorOf<S>* delta, size_t n);

}  // namespace vitrine::cpu
