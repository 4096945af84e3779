#include "optim/kernels.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace vitrine::optim::cpu {
namespace {

/// Calls f(type, begin, end) for pieces of x, in parallel.
template <class F>
void each(const char* op, const Tensor& x, F&& f) {
  const auto run = [&](auto type) {
    parallel_for(0, x.numel(), 1 << 13, [&](int64_t b, int64_t e) { f(type, b, e); });
  };
  if (x.dtype() == DType::float32) return run(Type<float>{});
  check(x.dtype() == DType::float64, "{}: wanted float32 or float64, got {}", op, describe(x));
  run(Type<double>{});
}

}  // namespace

void adam_step(Tensor& x0, const Tensor& g0, Tensor& m0, Tensor& v0, Tensor& largest, AdamScalars s) {
  each("adam_step", x0, [&](auto type, int64_t b, int64_t e) {
    using T = typename decltype(type)::type;
    T *const x = x0.data<T>(), *const m = m0.data<T>(), *const v = v0.data<T>();
    T* const top = largest.defined() ? largest.data<T>() : nullptr;
    const T* const grad = g0.data<T>();
    const T keep = T(1 - s.lr * s.decoupled_decay), decay = T(s.coupled_decay), lr = T(s.lr), eps = T(s.eps);
    const T b1 = T(s.beta1), b2 = T(s.beta2), c1 = T(1 - s.beta1), c2 = T(1 - s.beta2);
    const T mf = T(s.m_factor), gf = T(s.g_factor), vf = T(s.v_factor);
    for (int64_t i = b; i < e; ++i) {
      const T g = grad[i] + decay * x[i];
      m[i] = b1 * m[i] + c1 * g;
      v[i] = b2 * v[i] + c2 * g * g;
      if (top) top[i] = std::max(top[i], v[i]);
      const T second = top ? top[i] : v[i], update = mf * m[i] + gf * g;
      x[i] = keep * x[i] - lr * (vf == 0 ? update : update / (std::sqrt(second * vf) + eps));
    }
  });
}

void sgd_step(Tensor& x0, const Tensor& g0, Tensor& buffer0, SgdScalars s) {
  each("sgd_step", x0, [&](auto type, int64_t b, int64_t e) {
    using T = typename decltype(type)::type;
    T* const x = x0.data<T>();
    const T* const grad = g0.data<T>();
    T* const buffer = buffer0.defined() ? buffer0.data<T>() : nullptr;
    for (int64_t i = b; i < e; ++i) {
      T g = grad[i] + T(s.decay) * x[i];
      if (buffer) {
        buffer[i] = s.first ? g : T(s.momentum) * buffer[i] + T(1 - s.dampening) * g;
        g = s.nesterov ? g + T(s.momentum) * buffer[i] : buffer[i];
      }
      x[i] -= T(s.lr) * g;
    }
  });
}

void lion_step(Tensor& x0, const Tensor& g0, Tensor& m0, double lr, double beta1, double beta2,
               double decay) {
  each("lion_step", x0, [&](auto type, int64_t b, int64_t e) {
    using T = typename decltype(type)::type;
    T *const x = x0.data<T>(), *const m = m0.data<T>();
    const T* const g = g0.data<T>();
    for (int64_t i = b; i < e; ++i) {
      const T c = T(beta1) * m[i] + T(1 - beta1) * g[i];
      x[i] -= T(lr) * (T((c > 0) - (c < 0)) + T(decay) * x[i]);
      m[i] = T(beta2) * m[i] + T(1 - beta2) * g[i];
    }
  });
}

}  // namespace vitrine::optim::cpu
