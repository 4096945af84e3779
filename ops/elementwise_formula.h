// A user-defined elementwise function, from one formula:
//
//   struct Snake {
//     static constexpr const char* kName = "snake";
//     double f;
//     template <class T>
//     VITRINE_HD T value(T x) const {
//       const T s = sin(T(f) * x);
//       return x + s * s / T(f);
//     }
//     template <class T>
//     VITRINE_HD T derivative(T x, T) const {
//       return T(1) + sin(T(2 * f) * x);
//     }
//   };
//   …
//   Tensor y = elementwise(Snake{1.5}, x);
//
// The formula gives the vectorized CPU loop for every floating dtype, the gradient, and the second
// and third derivatives (tapes of a higher order are refused). It also gives the CUDA kernel if
// nvcc compiles the file that calls elementwise(), or if the emulator's definitions are set for
// that file (docs/cuda.md). Call a formula from one such file only: in another file the same call
// has no GPU kernel.
#pragma once

#include "core/creation.h"
#include "core/kernel_macros.h"
#include "core/parallel.h"
#include "core/record.h"
#include "core/simd/lanes.h"
#include "ops/elementwise.h"
#include "ops/operands.h"

#if VITRINE_CUDA_KERNELS && (defined(__CUDACC__) || VITRINE_CUDA_EMULATED)
#define VITRINE_COMPILES_KERNELS 1
#else
#define VITRINE_COMPILES_KERNELS 0
#endif

namespace vitrine {

/// F has a name, value(x) = f(x), and derivative(x, y) = f'(x) with y = f(x) rounded to x's dtype.
/// Both functions are templates on the number type; core/simd/lanes.h lists its operations. The
/// members of F are the formula's parameters.
template <class F>
concept ElementwiseFormula = requires(const F& f, lanes::Lanes<float, 1> x) {
  { F::kName } -> std::convertible_to<const char*>;
  { f.value(x) } -> std::same_as<lanes::Lanes<float, 1>>;
  { f.derivative(x, x) } -> std::same_as<lanes::Lanes<float, 1>>;
};

/// y[i] = f(x[i]) for x of any shape and strides, in a floating dtype. Saves x and y. On the CPU it
/// takes about three times as long as a built-in op with the same formula, because built-in ops are
/// compiled for each instruction set.
template <ElementwiseFormula F>
Tensor elementwise(const F& f, const Tensor& x);

namespace detail {

/// The derivative of a formula as a formula. Its own derivative is computed with tangents.
template <class F>
struct DerivativeFormula {
  static constexpr const char* kName = F::kName;
  F f;

  template <class T>
  VITRINE_HD T value(T x) const {
    return f.derivative(x, f.value(x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return value(lanes::Tangent<T>(x, T(1))).tangent;
  }
};

/// The highest derivative of an elementwise() with formula F. Each derivative is a separate
/// template.
template <class F>
inline constexpr int kHighestDerivative = 3;
template <class F>
inline constexpr int kHighestDerivative<DerivativeFormula<F>> = kHighestDerivative<F> - 1;

}  // namespace detail

namespace cpu {

/// y[i] = f(x[i], …) for n elements of dtype S in each operand, 64 at a time.
template <class S, class F, class... X>
void formula_run(S* y, int64_t n, const F& f, const X*... x) {
  constexpr int kLanes = 64;
  using T = AccumulatorOf<S>;
  parallel_for(0, n, grain_for(16), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes) {
      const auto count = static_cast<size_t>(std::min<int64_t>(kLanes, end - i));
      const auto load = [&](const S* from) {
        lanes::Lanes<T, kLanes> some(0);
        if constexpr (std::is_same_v<S, T>)
          std::copy_n(from + i, count, some.at);
        else
          vecmath::convert(some.at, from + i, count);
        return some;
      };
      const lanes::Lanes<T, kLanes> result = f(load(x)...);
      if constexpr (std::is_same_v<S, T>)
        std::copy_n(result.at, count, y + i);
      else
        vecmath::convert(y + i, result.at, count);
    }
  });
}

/// The same for dual numbers, one at a time.
template <class F, class... X>
void formula_run(Dual* y, int64_t n, const F& f, const X*... x) {
  using Number = lanes::Lanes<double, 1>;
  for (int64_t i = 0; i < n; ++i) {
    const auto number = [](const Dual& d) {
      return lanes::Tangent<Number>(Number(d.value), Number(d.tangent));
    };
    const lanes::Tangent<Number> result = f(number(x[i])...);
    y[i] = Dual(result.value.at[0], result.tangent.at[0]);
  }
}

/// Dense tensors of one dtype.
template <class F>
void formula_value(Tensor& y, const Tensor& x, const F& f) {
  visit_floating(x.dtype(), F::kName, [&](auto type) {
    using S = typename decltype(type)::type;
    formula_run(
        y.data<S>(), y.numel(), [&](const auto& x) { return f.value(x); }, x.data<S>());
  });
}
template <class F>
void formula_derivative(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const F& f) {
  visit_floating(x.dtype(), F::kName, [&](auto type) {
    using S = typename decltype(type)::type;
    formula_run(
        dx.data<S>(), dx.numel(),
        [&](const auto& dy, const auto& x, const auto& y) { return dy * f.derivative(x, y); }, dy.data<S>(),
        x.data<S>(), y.data<S>());
  });
}

}  // namespace cpu

namespace cuda {
#if VITRINE_COMPILES_KERNELS
template <class F>
void formula_value(Tensor& y, const Tensor& x, const F& f);
template <class F>
void formula_derivative(Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const F& f);
#else
template <class F>
inline constexpr detail::NoTwin formula_value{};
template <class F>
inline constexpr detail::NoTwin formula_derivative{};
#endif
}  // namespace cuda

template <ElementwiseFormula F>
Tensor elementwise(const F& f, const Tensor& x) {
  check_floating(F::kName, "x", x);
  Tensor y = empty(x.shape(), x.dtype(), x.device());
  VITRINE_RUN_AS(F::kName, formula_value<F>, y, packed(x), f);
  return record(F::kName, {x}, y, [f, x = Saved(x), y = Saved(y)](const Backward& b) -> Grads {
    if (b.recorded()) {
      if constexpr (detail::kHighestDerivative < F >> 1)
        return {b.dy() * elementwise(detail::DerivativeFormula<F>{f}, x.get())};
      fail("{}: a formula is differentiated on tapes of order 3 at most", F::kName);
    }
    Tensor dx = empty(x->shape(), x->dtype(), x->device());
    VITRINE_RUN_AS(F::kName, formula_derivative<F>, dx, packed(b.dy()), packed(x), y.get(), f);
    return {dx};
  });
}

}  // namespace vitrine

#if VITRINE_COMPILES_KERNELS
#include "cuda/elementwise_formula.h"
#endif
