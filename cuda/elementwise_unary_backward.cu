// dy f'(x) for each element, from the same formulas as on the CPU (ops/formulas-inl.h): a thread
// takes 16 bytes at a time.
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class F, class S>
__global__ void unary_backward_kernel(S* dx, const S* dy, const S* x, const S* y, Strided<4> layout, F f) {
  using T = AccumulatorOf<S>;
  const auto slope = [&](S dy, S x, S y) {
    return S(static_cast<T>(dy) * f.derivative(static_cast<T>(x), static_cast<T>(y)));
  };
  map_all(layout, slope, dx, dy, x, y);
}

}  // namespace

void unary_backward(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, Unary op, double a,
                    double b) {
  if (dx.numel() == 0) return;
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, a, b, [&](auto f) {
      const auto layout = Strided<4>::of(dx, dy, x, y);
      VITRINE_LAUNCH((unary_backward_kernel<decltype(f), S>), layout.blocks(), kThreads, 0, dx.data<S>(),
                     dy.data<S>(), x.data<S>(), y.data<S>(), layout, f);
    });
  });
}

}  // namespace vitrine::cuda
