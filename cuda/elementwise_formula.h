// The CUDA kernels of ops/elementwise_formula.h. A thread processes 16 bytes at a time.
#pragma once

#include "core/simd/lanes.h"
#include "cuda/strided.h"

namespace vitrine::cuda {

template <class F, class S>
__global__ void formula_value_kernel(S* y, const S* x, Strided<2> layout, F f) {
  using T = lanes::Lanes<AccumulatorOf<S>, 1>;
  map_all(
      layout, [&](S x) { return S(f.value(T(static_cast<AccumulatorOf<S>>(x))).at[0]); }, y, x);
}

template <class F, class S>
__global__ void formula_derivative_kernel(S* dx, const S* dy, const S* x, const S* y, Strided<4> layout,
                                          F f) {
  using A = AccumulatorOf<S>;
  using T = lanes::Lanes<A, 1>;
  const auto slope = [&](S dy, S x, S y) {
    return S((T(static_cast<A>(dy)) * f.derivative(T(static_cast<A>(x)), T(static_cast<A>(y)))).at[0]);
  };
  map_all(layout, slope, dx, dy, x, y);
}

template <class F>
void formula_value(Tensor& y, const Tensor& x, const F& f) {
  if (y.numel() == 0) return;
  visit_device_floating(x.dtype(), F::kName, [&](auto type) {
    using S = typename decltype(type)::type;
    const auto layout = Strided<2>::of(y, x);
    VITRINE_LAUNCH((formula_value_kernel<F, S>), layout.blocks(), kThreads, 0, y.data<S>(), x.data<S>(),
                   layout, f);
  });
}

template <class F>
void formula_derivative(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const F& f) {
  if (dx.numel() == 0) return;
  visit_device_floating(x.dtype(), F::kName, [&](auto type) {
    using S = typename decltype(type)::type;
    const auto layout = Strided<4>::of(dx, dy, x, y);
    VITRINE_LAUNCH((formula_derivative_kernel<F, S>), layout.blocks(), kThreads, 0, dx.data<S>(),
                   dy.data<S>(), x.data<S>(), y.data<S>(), layout, f);
  });
}

}  // namespace vitrine::cuda
