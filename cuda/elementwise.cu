// Elementwise kernels, from the same formulas as on the CPU (ops/formulas-inl.h): one thread an element, in turn.
#include "cuda/strided.h"
#include "ops/formulas_integer.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

template <class F, class S>
__global__ void unary_kernel(S* y, const S* x, Strided<2> layout, F f) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[2];
    layout.locate(i, at);
    y[at[0]] = S(f.value(static_cast<Wide<S>>(x[at[1]])));
  }
}

template <class F, class S>
__global__ void unary_backward_kernel(S* dx, const S* dy, const S* x, const S* y, Strided<4> layout, F f) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[4];
    layout.locate(i, at);
    using T = Wide<S>;
    const T slope = f.derivative(static_cast<T>(x[at[2]]), static_cast<T>(y[at[3]]));
    dx[at[0]] = S(static_cast<T>(dy[at[1]]) * slope);
  }
}

template <class F, class S>
__global__ void binary_kernel(S* z, const S* x, const S* y, Strided<3> layout, F f) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[3];
    layout.locate(i, at);
    z[at[0]] = S(f.value(static_cast<Wide<S>>(x[at[1]]), static_cast<Wide<S>>(y[at[2]])));
  }
}

template <class I>
__global__ void integer_unary_kernel(I* y, const I* x, Strided<2> layout, Unary op) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[2];
    layout.locate(i, at);
    y[at[0]] = integer(op, x[at[1]]);
  }
}

template <class I>
__global__ void integer_binary_kernel(I* z, const I* x, const I* y, Strided<3> layout, Binary op) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[3];
    layout.locate(i, at);
    z[at[0]] = integer(op, x[at[1]], y[at[2]]);
  }
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
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[3];
    layout.locate(i, at);
    z[at[0]] = holds(op, static_cast<Wide<S>>(x[at[1]]), static_cast<Wide<S>>(y[at[2]]));
  }
}

__global__ void logic_kernel(bool* z, const bool* x, const bool* y, Strided<3> layout, Logic op) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[3];
    layout.locate(i, at);
    const bool a = x[at[1]], b = y[at[2]];
    z[at[0]] = op == Logic::logical_and ? a && b : op == Logic::logical_or ? a || b : a != b;
  }
}

template <class S>
__global__ void choose_kernel(S* z, const bool* condition, const S* x, const S* y, Strided<4> layout) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[4];
    layout.locate(i, at);
    z[at[0]] = condition[at[1]] ? x[at[2]] : y[at[3]];
  }
}

}  // namespace

void unary(Tensor& y, const Tensor& x, Unary op, double a, double b) {
  if (y.numel() == 0) return;
  if (is_integer(x.dtype()) && has_integers(op))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      VITRINE_LAUNCH((integer_unary_kernel<I>), blocks_for(y.numel()), kThreads, 0, y.data<I>(), x.data<I>(),
                     Strided<2>::of(y, x), op);
    });
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, a, b, [&](auto f) {
      VITRINE_LAUNCH((unary_kernel<decltype(f), S>), blocks_for(y.numel()), kThreads, 0, y.data<S>(),
                     x.data<S>(), Strided<2>::of(y, x), f);
    });
  });
}

void unary_backward(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, Unary op, double a,
                    double b) {
  if (dx.numel() == 0) return;
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, a, b, [&](auto f) {
      VITRINE_LAUNCH((unary_backward_kernel<decltype(f), S>), blocks_for(dx.numel()), kThreads, 0,
                     dx.data<S>(), dy.data<S>(), x.data<S>(), y.data<S>(), Strided<4>::of(dx, dy, x, y), f);
    });
  });
}

void binary(Tensor& z, const Tensor& x, const Tensor& y, Binary op) {
  if (z.numel() == 0) return;
  if (is_integer(x.dtype()))
    return visit_index(x.dtype(), name(op), [&](auto type) {
      using I = typename decltype(type)::type;
      VITRINE_LAUNCH((integer_binary_kernel<I>), blocks_for(z.numel()), kThreads, 0, z.data<I>(), x.data<I>(),
                     y.data<I>(), Strided<3>::of(z, x, y), op);
    });
  visit_device_floating(x.dtype(), name(op), [&](auto type) {
    using S = typename decltype(type)::type;
    visit_formula(op, [&](auto f) {
      VITRINE_LAUNCH((binary_kernel<decltype(f), S>), blocks_for(z.numel()), kThreads, 0, z.data<S>(),
                     x.data<S>(), y.data<S>(), Strided<3>::of(z, x, y), f);
    });
  });
}

void compare(Tensor& z, const Tensor& x, const Tensor& y, Comparison op) {
  if (z.numel() == 0) return;
  visit_device(x.dtype(), "compare", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((compare_kernel<S>), blocks_for(z.numel()), kThreads, 0, z.data<bool>(), x.data<S>(),
                   y.data<S>(), Strided<3>::of(z, x, y), op);
  });
}

void logic(Tensor& z, const Tensor& x, const Tensor& y, Logic op) {
  if (z.numel() == 0) return;
  VITRINE_LAUNCH(logic_kernel, blocks_for(z.numel()), kThreads, 0, z.data<bool>(), x.data<bool>(),
                 y.data<bool>(), Strided<3>::of(z, x, y), op);
}

void choose(Tensor& z, const Tensor& condition, const Tensor& x, const Tensor& y) {
  if (z.numel() == 0) return;
  visit_device(z.dtype(), "choose", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((choose_kernel<S>), blocks_for(z.numel()), kThreads, 0, z.data<S>(),
                   condition.data<bool>(), x.data<S>(), y.data<S>(), Strided<4>::of(z, condition, x, y));
  });
}

}  // namespace vitrine::cuda
