// Vectorized rows of the elementwise kernels, for each function and instruction set.
#pragma once

#include <cstddef>

#include "ops/formulas.h"

namespace vitrine::cpu {

/// y[i] = f(x[0][i], x[1][i], …) for i < n; y may be one of the x. `a` and `b` are the formula's
/// parameters.
template <class T>
using Row = void (*)(T* y, const T* const* x, size_t n, double a, double b);

/// y = f(x). T: float or double.
template <class T>
Row<T> unary_row(Unary op);
/// dx = dy·f'(x), with x[0] = dy, x[1] = x, x[2] = y = f(x).
template <class T>
Row<T> unary_backward_row(Unary op);
/// z = f(x, y).
template <class T>
Row<T> binary_row(Binary op);

/// y[i] = f(x[i]) for i < n, on this thread. S: float, double, bfloat16 or float16.
template <class S>
void unary_run(S* y, const S* x, int64_t n, Unary op);

}  // namespace vitrine::cpu
