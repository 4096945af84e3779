// Rules that treat each element by itself: all of a group in one pass.
#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/optimizers.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void adam_row(T* x, const T* grad, T* m, T* v, T* largest, size_t n, const optim::AdamScalars& s) {
  using V = Vec<T>;
  const V keep(T(1 - s.lr * s.decoupled_decay)), decay(T(s.coupled_decay)), lr(T(s.lr)),
      eps(optim::in_denominator<T>(s.eps));
  const V b1(T(s.beta1)), b2(T(s.beta2)), c1(T(1 - s.beta1)), c2(T(1 - s.beta2));
  const V mf(T(s.m_factor)), gf(T(s.g_factor)), vf(T(s.v_factor));
  const bool adaptive = s.v_factor != 0;
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = limited(get(grad) + decay * old);
    const V m1 = b1 * get(m) + c1 * g;
    V m2 = b2 * get(v) + c2 * g * g;
    put(m, m1);
    put(v, m2);
    if (largest != nullptr) {
      m2 = max(get(largest), m2);
      put(largest, m2);
    }
    const V step = mf * m1 + gf * g;
    put(x, keep * old - lr * (adaptive ? step / (sqrt(m2 * vf) + eps) : step));
  });
}

template <class T>
void sgd_row(T* x, const T* grad, T* buffer, bool first, size_t n, const optim::SgdScalars& s) {
  using V = Vec<T>;
  const V lr(T(s.lr)), momentum(T(s.momentum)), rest(T(1 - s.dampening)), decay(T(s.decay));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x);
    V g = get(grad) + decay * old;
    if (buffer != nullptr) {
      const V b = first ? g : momentum * get(buffer) + rest * g;
      put(buffer, b);
      g = s.nesterov ? g + momentum * b : b;
    }
    put(x, old - lr * g);
  });
}

template <class T>
void lion_row(T* x, const T* grad, T* m, size_t n, const optim::LionScalars& s) {
  using V = Vec<T>;
  const V lr(T(s.lr)), decay(T(s.decay));
  const V b1(T(s.beta1)), c1(T(1 - s.beta1)), b2(T(s.beta2)), c2(T(1 - s.beta2));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = get(grad), m1 = get(m);
    put(x, old - lr * (sign(b1 * m1 + c1 * g) + decay * old));
    put(m, b2 * m1 + c2 * g);
  });
}

template <class T>
void rmsprop_row(T* x, const T* grad, T* v, T* m, T* buffer, size_t n, const optim::RmspropScalars& s) {
  using V = Vec<T>;
  const V lr(T(s.lr)), b2(T(s.beta2)), c2(T(1 - s.beta2)), eps(optim::in_denominator<T>(s.eps));
  const V momentum(T(s.momentum)), decay(T(s.decay)), zero(T(0));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = limited(get(grad) + decay * old);
    V square = b2 * get(v) + c2 * g * g;
    put(v, square);
    if (m != nullptr) {
      const V mean = b2 * get(m) + c2 * g;
      put(m, mean);
      square = max(square - mean * mean, zero);  // rounding can bring the variance below 0
    }
    V u = g / (sqrt(square) + eps);
    if (buffer != nullptr) {
      u = momentum * get(buffer) + u;
      put(buffer, u);
    }
    put(x, old - lr * u);
  });
}

template <class T>
void adagrad_row(T* x, const T* grad, T* v, size_t n, const optim::AdagradScalars& s) {
  using V = Vec<T>;
  const V lr(T(s.lr)), eps(optim::in_denominator<T>(s.eps)), decay(T(s.decay));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = limited(get(grad) + decay * old), sum = get(v) + g * g;
    put(v, sum);
    put(x, old - lr * g / (sqrt(sum) + eps));
  });
}

template <class T>
void adadelta_row(T* x, const T* grad, T* v, T* steps, size_t n, const optim::AdadeltaScalars& s) {
  using V = Vec<T>;
  const V lr(T(s.lr)), rho(T(s.rho)), rest(T(1 - s.rho)), eps(optim::under_root<T>(s.eps)), decay(T(s.decay));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = limited(get(grad) + decay * old), before = get(steps);
    const V square = rho * get(v) + rest * g * g, u = sqrt(before + eps) / sqrt(square + eps) * g;
    put(v, square);
    put(steps, rho * before + rest * u * u);
    put(x, old - lr * u);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {

void adam_step(List& x, List& copies, const List& g, List& m, List& v, List& largest, Live<AdamScalars> s) {
  update_pieces("adam_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(adam_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at), place<T>(v, i, at), place<T>(largest, i, at),
     n, s.value);
  });
}

void sgd_step(List& x, List& copies, const List& g, List& buffer, const std::vector<bool>& first,
              Live<SgdScalars> s) {
  update_pieces("sgd_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(sgd_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(buffer, i, at), first[i], n, s.value);
  });
}

void lion_step(List& x, List& copies, const List& g, List& m, Live<LionScalars> s) {
  update_pieces("lion_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lion_row<T>)(place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at), n, s.value);
  });
}

void rmsprop_step(List& x, List& copies, const List& g, List& v, List& m, List& buffer,
                  Live<RmspropScalars> s) {
  update_pieces("rmsprop_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(rmsprop_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(v, i, at), place<T>(m, i, at), place<T>(buffer, i, at),
     n, s.value);
  });
}

void adagrad_step(List& x, List& copies, const List& g, List& v, Live<AdagradScalars> s) {
  update_pieces("adagrad_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(adagrad_row<T>)(place<T>(x, i, at), place<T>(g, i, at), place<T>(v, i, at), n, s.value);
  });
}

void adadelta_step(List& x, List& copies, const List& g, List& v, List& steps, Live<AdadeltaScalars> s) {
  update_pieces("adadelta_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(adadelta_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(v, i, at), place<T>(steps, i, at), n, s.value);
  });
}

}  // namespace vitrine::optim::cpu
#endif
