// Elementwise kernels of two and three operands, from the same formulas as on the CPU
// (ops/formulas-inl.h): a thread takes 16 bytes at a time.
#include "cuda/strided.h"
#include "ops/formulas_integer.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class F, class S>
__global__ void binary_kernel(S* z, const S* x, const S* y, Strided<3> layout, F f) {
  using T = AccumulatorOf<S>;
  map_all(
      layout, [&](S x, S y) { return S(f.value(static_cast<T>(x), static_cast<T>(y))); }, z, x, y);
}

template <class I>
__global__ void integer_binary_kernel(I* z, const I* x, const I* y, Strided<3> layout, Binary op) {
  map_all(
      layout, [&](I x, I y) { return integer(op, x, y); }, z, x, y);
}

template <class T>
__device__ bool holds(Comparison op, T x, T y) {
  switch (op) {
    case Comparison::equal: return x == y;
    case Comparison::not_equal: return x != y;
    case Comparison::less: return x < y;
    case Comparison::less_equal: return x <= y;
    case Comparison::greater: return x > y;
    case Comparison::greater_equal: return x >= y;
  }
  return false;
}

template <class S>
__global__ void compare_kernel(bool* z, const S* x, const S* y, Strided<3> layout, Comparison op) {
  using T = AccumulatorOf<S>;
  map_all(
      layout, [&](S x, S y) { return holds(op, static_cast<T>(x), static_cast<T>(y)); }, z, x, y);
}

__global__ void logic_kernel(bool* z, const bool* x, const bool* y, Strided<3> layout, Logic op) {
  const auto value = [&](bool a, bool b) {
    return op == Logic::logical_and ? a && b : op == Logic::logical_or ? a || b : a != b;
  };
  map_all(layout, value, z, x, y);
}

template <class S>
__global__ void choose_kernel(S* z, const bool* condition, const S* x, const S* y, Strided<4> layout) {
  map_all(
      layout, [](bool condition, S x, S y) { return condition ? x : y; }, z, condition, x, y);
}

}  // namespace

void binary(Tensor& z, const Tensor& x, const Tensor& y, Binary op) {
  if (z.numel() == 0) return;
  if (is_integer(x.dtype()))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      const auto layout = Strided<3>::of(z, x, y);
      VITRINE_LAUNCH((integer_binary_kernel<I>), layout.blocks(), kThreads, 0, z.data<I>(), x.data<I>(),
                     y.data<I>(), layout, op);
    });
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, [&](auto f) {
      const auto layout = Strided<3>::of(z, x, y);
      VITRINE_LAUNCH((binary_kernel<decltype(f), S>), layout.blocks(), kThreads, 0, z.data<S>(), x.data<S>(),
                     y.data<S>(), layout, f);
    });
  });
}

void compare(Tensor& z, const Tensor& x, const Tensor& y, Comparison op) {
  if (z.numel() == 0) return;
  visit_device(x.dtype(), "compare", [&](auto type) {
    using S = typename decltype(type)::type;
    const auto layout = Strided<3>::of(z, x, y);
    VITRINE_LAUNCH((compare_kernel<S>), layout.blocks(), kThreads, 0, z.data<bool>(), x.data<S>(),
                   y.data<S>(), layout, op);
  });
}

void logic(Tensor& z, const Tensor& x, const Tensor& y, Logic op) {
  if (z.numel() == 0) return;
  const auto layout = Strided<3>::of(z, x, y);
  VITRINE_LAUNCH(logic_kernel, layout.blocks(), kThreads, 0, z.data<bool>(), x.data<bool>(), y.data<bool>(),
                 layout, op);
}

void choose(Tensor& z, const Tensor& condition, const Tensor& x, const Tensor& y) {
  if (z.numel() == 0) return;
  visit_device(z.dtype(), "choose", [&](auto type) {
    using S = typename decltype(type)::type;
    const auto layout = Strided<4>::of(z, condition, x, y);
    VITRINE_LAUNCH((choose_kernel<S>), layout.blocks(), kThreads, 0, z.data<S>(), condition.data<bool>(),
                   x.data<S>(), y.data<S>(), layout);
  });
}

}  // namespace vitrine::cuda
