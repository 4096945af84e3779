// Functions of whole rows, for kernels that do not use vectors directly. They run with the
// instruction set in use.
//
// S, the type in memory, is float, double, bfloat16 or float16. T = AccumulatorOf<S>, the type of
// all computations, is float for the 16-bit types and S otherwise. Results are rounded to S once. A
// sum adds in a fixed order, so that it depends only on the row's length and the instruction set:
// partial sums of type T over blocks of 256 vectors, and a double sum over the blocks. NaN
// propagates as in IEEE 754. Denormals are kept.
//
// A kernel that needs another function is written with Vec, `map` and `map_sum` of
// core/simd/vector_loop-inl.h.
#pragma once

#include <cstddef>

#include "core/dtype.h"
#include "core/simd/pointers.h"

namespace vitrine::vecmath {

/// The largest errors, in ulp (units in the last place) of the result:
///   exp 1      log 1      sqrt 0.5     sin, cos 2.5    erf 4
///   expm1 4    log1p 3    rsqrt 1.5    tanh 3
/// The ulp of sin and cos is the ulp of 1, as their zeros are between representable numbers. Zeros,
/// denormals, infinities, NaN and huge arguments give the results of the C functions. For the
/// sources of the approximations see core/simd/vector_functions-inl.h.
enum class Function { exp, expm1, log, log1p, sqrt, rsqrt, sin, cos, tanh, erf };

/// y = f(x), element by element; y may be x.
template <class S>
void apply(Function f, S* y, const S* x, size_t n);

/// The largest and smallest element; NaN if any element is NaN; −∞ and +∞ for n = 0.
template <class S>
AccumulatorOf<S> max(const S* x, size_t n);
template <class S>
AccumulatorOf<S> min(const S* x, size_t n);

/// Σ x, Σ x², Σ x·y, Σ (x − mean)².
template <class S>
AccumulatorOf<S> sum(const S* x, size_t n);
template <class S>
AccumulatorOf<S> sum_of_squares(const S* x, size_t n);
template <class S>
AccumulatorOf<S> dot(const S* x, const S* y, size_t n);
template <class S>
AccumulatorOf<S> sum_squared_deviation(const S* x, AccumulatorOf<S> mean, size_t n);

/// y = exp(x − shift); returns the sum of y. y may be null or x.
template <class S>
AccumulatorOf<S> exp_shifted_sum(AccumulatorOf<S>* y, const S* x, AccumulatorOf<S> shift, size_t n);

/// y = scale · exp(x − shift): a softmax from its log-sum-exp. y may be x.
template <class S>
void exp_shifted_scaled(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale, size_t n);

/// y = a · (x − shift). y may be x.
template <class S>
void scale(S* y, const S* x, AccumulatorOf<S> a, size_t n, AccumulatorOf<S> shift = 0);

/// y += a · x, where y has the accumulation type.
template <class S>
void axpy(AccumulatorOf<S>* y, AccumulatorOf<S> a, const S* x, size_t n);

/// z = x · y.
template <class S>
void multiply(S* z, const S* x, const S* y, size_t n);

/// z = (x − shift) · y: the backward of softmax, with x = dy, shift = Σ dy·y. z may be x or y.
template <class S>
void multiply_shifted(S* z, const S* x, AccumulatorOf<S> shift, const S* y, size_t n);

/// y = (x − mean) · rstd · weight + bias; weight (1 if null) and bias (0 if null) have n elements.
/// y may be x.
template <class S>
void normalize(S* y, const S* x, AccumulatorOf<S> mean, AccumulatorOf<S> rstd, const AccumulatorOf<S>* weight,
               const AccumulatorOf<S>* bias, size_t n);

/// y = x rounded to D (to nearest, ties to even), for every pair of the four types.
template <class D, class S>
void convert(D* y, const S* x, size_t n);

/// y = x as halves, and y = x as floats (core/halves.h).
void split(HalvesPointer y, const float* x, size_t n);
void join(float* y, HalvesPointer x, size_t n);

}  // namespace vitrine::vecmath
