// f(x) for each element, from the same formulas as on the CPU (ops/formulas-inl.h): a thread takes
// 16 bytes at a time.
#include "cuda/strided.h"
#include "ops/formulas_integer.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class F, class S>
__global__ void unary_kernel(S* y, const S* x, Strided<2> layout, F f) {
  map_all(
      layout, [&](S x) { return S(f.value(static_cast<AccumulatorOf<S>>(x))); }, y, x);
}

template <class I>
__global__ void integer_unary_kernel(I* y, const I* x, Strided<2> layout, Unary op) {
  map_all(
      layout, [&](I x) { return integer(op, x); }, y, x);
}

}  // namespace

void unary(Tensor& y, const Tensor& x, Unary op, double a, double b) {
  if (y.numel() == 0) return;
  if (is_integer(x.dtype()) && has_integers(op))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      const auto layout = Strided<2>::of(y, x);
      VITRINE_LAUNCH((integer_unary_kernel<I>), layout.blocks(), kThreads, 0, y.data<I>(), x.data<I>(),
                     layout, op);
    });
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, a, b, [&](auto f) {
      const auto layout = Strided<2>::of(y, x);
      VITRINE_LAUNCH((unary_kernel<decltype(f), S>), layout.blocks(), kThreads, 0, y.data<S>(), x.data<S>(),
                     layout, f);
    });
  });
}

}  // namespace vitrine::cuda
