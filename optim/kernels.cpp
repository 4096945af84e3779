#include "optim/kernels.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/kernels.h"
#include "core/loop.h"
#include "core/parallel.h"
#include "core/vecmath.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/kernels.cpp"
#include "core/simd.h"
#include "core/vec_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void adam_row(T* x, const T* grad, T* m, T* v, T* largest, size_t n, const optim::AdamScalars& s) {
  using V = Vec<T>;
  const V keep(T(1 - s.lr * s.decoupled_decay)), decay(T(s.coupled_decay)), lr(T(s.lr)), eps(T(s.eps));
  const V b1(T(s.beta1)), b2(T(s.beta2)), c1(T(1 - s.beta1)), c2(T(1 - s.beta2));
  const V mf(T(s.m_factor)), gf(T(s.g_factor)), vf(T(s.v_factor));
  const bool adaptive = s.v_factor != 0;
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V old = get(x), g = get(grad) + decay * old;
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

/// u of LAMB.
template <class T>
HWY_INLINE Vec<T> lamb_direction(Vec<T> x, Vec<T> m, Vec<T> v, const optim::AdamScalars& s) {
  using V = Vec<T>;
  return V(T(s.m_factor)) * m / (sqrt(v * V(T(s.v_factor))) + V(T(s.eps))) + V(T(s.decoupled_decay)) * x;
}

template <class T>
void lamb_moments_row(double* squares, const T* x, const T* grad, T* m, T* v, size_t n,
                      const optim::AdamScalars& s) {
  using V = Vec<T>;
  const V b1(T(s.beta1)), b2(T(s.beta2)), c1(T(1 - s.beta1)), c2(T(1 - s.beta2));
  V of_x(T(0)), of_u(T(0));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V g = get(grad), at = get(x), m1 = b1 * get(m) + c1 * g, m2 = b2 * get(v) + c2 * g * g;
    put(m, m1);
    put(v, m2);
    const V u = lamb_direction<T>(at, m1, m2, s);
    of_x += at * at;
    of_u += u * u;
  });
  squares[0] = reduce_sum(of_x);
  squares[1] = reduce_sum(of_u);
}

template <class T>
void lamb_row(T* x, const T* m, const T* v, size_t n, double rate, const optim::AdamScalars& s) {
  const Vec<T> lr(static_cast<T>(rate));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const Vec<T> at = get(x);
    put(x, at - lr * lamb_direction<T>(at, get(m), get(v), s));
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {
namespace {

constexpr int64_t kPiece = 1 << 14;

/// Calls f(type, tensor, begin, end, piece) for pieces of all tensors, in parallel; their cut depends on sizes only.
template <class F>
void for_each_piece(const char* op, const List& xs, F&& f) {
  std::vector<std::pair<size_t, int64_t>> pieces;
  for (size_t i = 0; i < xs.size(); ++i) {
    check(xs[i].dtype() == DType::float32 || xs[i].dtype() == DType::float64,
          "{}: wanted float32 or float64, got {}", op, describe(xs[i]));
    for (int64_t at = 0; at < xs[i].numel(); at += kPiece) pieces.emplace_back(i, at);
  }
  parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t n = b; n < e; ++n) {
      const size_t i = pieces[static_cast<size_t>(n)].first;
      const int64_t begin = pieces[static_cast<size_t>(n)].second,
                    end = std::min(begin + kPiece, xs[i].numel());
      if (xs[i].dtype() == DType::float32) {
        f(Type<float>{}, i, begin, static_cast<size_t>(end - begin), n);
      } else {
        f(Type<double>{}, i, begin, static_cast<size_t>(end - begin), n);
      }
    }
  });
}

int64_t pieces_of(const Tensor& x) { return (x.numel() + kPiece - 1) / kPiece; }
int64_t pieces_of(const List& xs) {
  int64_t count = 0;
  for (const Tensor& x : xs) count += pieces_of(x);
  return count;
}

/// Element `at` of list[i], or null for an empty list.
template <class T>
T* place(const List& list, size_t i, int64_t at) {
  return list.empty() ? nullptr : list[i].data<T>() + at;
}

}  // namespace

void adam_step(List& x, List& copies, const List& g, List& m, List& v, List& largest, Live<AdamScalars> s) {
  for_each_piece("adam_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(adam_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at), place<T>(v, i, at), place<T>(largest, i, at),
     n, s.value);
    if (!copies.empty())
      vecmath::convert(place<bfloat16>(copies, i, at), place<T>(x, i, at), n);  // x is in cache
  });
}

void lamb_moments(Tensor& norms, const List& x, const List& g, List& m, List& v, AdamScalars s) {
  std::vector<double> squares(static_cast<size_t>(2 * pieces_of(x)));
  for_each_piece("lamb_moments", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t piece) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lamb_moments_row<T>)
    (&squares[static_cast<size_t>(2 * piece)], place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at),
     place<T>(v, i, at), n, s);
  });
  size_t piece = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double of_x = 0, of_u = 0;
    for (int64_t k = 0; k < pieces_of(x[i]); ++k, ++piece)
      of_x += squares[2 * piece], of_u += squares[2 * piece + 1];
    norms.data<double>()[2 * i] = std::sqrt(of_x);
    norms.data<double>()[2 * i + 1] = std::sqrt(of_u);
  }
}

void lamb_step(List& x, const List& m, const List& v, const std::vector<double>& rates, AdamScalars s) {
  for_each_piece("lamb_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lamb_row<T>)(place<T>(x, i, at), place<T>(m, i, at), place<T>(v, i, at), n, rates[i], s);
  });
}

void sgd_step(List& x, const List& g, List& buffer, const std::vector<bool>& first, Live<SgdScalars> s) {
  for_each_piece("sgd_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(sgd_row<T>)
    (place<T>(x, i, at), place<T>(g, i, at), place<T>(buffer, i, at), first[i], n, s.value);
  });
}

void lion_step(List& x, const List& g, List& m, Live<LionScalars> s) {
  for_each_piece("lion_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lion_row<T>)(place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at), n, s.value);
  });
}

void sum_of_squares(Tensor& total, const List& xs) {
  std::vector<double> squares(static_cast<size_t>(pieces_of(xs)));
  for_each_piece("sum_of_squares", xs, [&](auto type, size_t i, int64_t at, size_t n, int64_t piece) {
    using T = typename decltype(type)::type;
    squares[static_cast<size_t>(piece)] = vecmath::sum_of_squares(place<T>(xs, i, at), n);
  });
  double sum = 0;
  for (double s : squares) sum += s;
  *total.data<double>() = sum;
}

void clip_all(List& xs, const Tensor& norm, double max_norm) {
  const double of_all = *norm.data<double>(), factor = max_norm / (of_all + 1e-6);
  if (factor < 1) scale_all(xs, factor);
}

void scale_all(List& xs, double factor) {
  for (Tensor& x : xs)
    visit_floating(x.dtype(), "scale_all", [&](auto type) {
      using T = typename decltype(type)::type;
      const StridedLoop<1> loop(x.shape(), {x.strides()});
      loop.parallel(1, [&](const std::array<int64_t, 1>& at, int64_t count) {
        T* const first = x.data<T>() + at[0];
        for (int64_t i = 0; i < count; ++i) {
          T& e = first[i * loop.inner_stride[0]];
          e = T(static_cast<Wide<T>>(e) * static_cast<Wide<T>>(factor));
        }
      });
    });
}

}  // namespace vitrine::optim::cpu
#endif
