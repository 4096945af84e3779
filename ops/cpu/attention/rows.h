// Functions of rows for LASER's read, o = c + log(δ + Σ a·F) with F = e^(v − c) − δ. The anchor c
// and δ ∈ {0, 1} belong to a channel and a tile of queries. If the visible values are within 2 of
// each other, c is their middle; if they are within 60, c is their minimum. In both cases δ = 1, so
// that nothing cancels for small values. Otherwise c = max − 60 and δ = 0, and elements that such a
// sum cannot represent are read exactly. All arrays have n channels; T is float or double.
#pragma once

#include <cstddef>

namespace vitrine::cpu {

/// low = min(low, v), high = max(high, v).
template <class T>
void laser_extend_range(T* low, T* high, const T* v, size_t n);
/// c and δ, from the range of the values.
template <class T>
void laser_anchor(T* c, T* delta, const T* low, const T* high, size_t n);
/// f = e^(v − c) − δ.
template <class T>
void laser_values(T* f, const T* v, const T* c, const T* delta, size_t n);
/// y = c + log(δ + sum).
template <class T>
void laser_finish(T* y, const T* sum, const T* c, const T* delta, size_t n);
/// h = dy/(δ + sum); returns Σ h·sum. Computed from the sum instead of y, because y is rounded at
/// the magnitude of c.
template <class T>
T laser_cotangent(T* h, const T* dy, const T* sum, const T* delta, size_t n);
/// dv += t·(f + δ).
template <class T>
void laser_add_value_gradient(T* dv, const T* t, const T* f, const T* delta, size_t n);

}  // namespace vitrine::cpu
