// LAMB: moments and the norms of x and u, then the update at the rate that follows from them.
#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/lamb.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE Vec<T> lamb_direction(Vec<T> x, Vec<T> m, Vec<T> v, const optim::AdamScalars& s) {
  using V = Vec<T>;
  return V(T(s.m_factor)) * m / (sqrt(v * V(T(s.v_factor))) + V(optim::in_denominator<T>(s.eps))) +
         V(T(s.decoupled_decay)) * x;
}

/// squares: Σx² and Σu².
template <class T>
void lamb_moments(double* squares, const T* x, const T* grad, T* m, T* v, size_t n,
                  const optim::AdamScalars& s) {
  using V = Vec<T>;
  const V b1(T(s.beta1)), b2(T(s.beta2)), c1(T(1 - s.beta1)), c2(T(1 - s.beta2));
  Vec<double> of_x(0.0), of_u(0.0);
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const V g = limited(get(grad)), at = get(x), m1 = b1 * get(m) + c1 * g, m2 = b2 * get(v) + c2 * g * g;
    put(m, m1);
    put(v, m2);
    const V u = lamb_direction<T>(at, m1, m2, s);
    of_x += wide_squares(at);
    of_u += wide_squares(u);
  });
  squares[0] = reduce_sum(of_x), squares[1] = reduce_sum(of_u);
}

template <class T>
void lamb_update(T* x, const T* m, const T* v, size_t n, double rate, const optim::AdamScalars& s) {
  const Vec<T> lr(static_cast<T>(rate));
  map(
      n, x, [&](Vec<T> x, Vec<T> m, Vec<T> v) HWY_ATTR { return x - lr * lamb_direction<T>(x, m, v, s); }, x,
      m, v);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {

void lamb_step(List& x, List& copies, const List& g, List& m, List& v, Live<LambScalars> s) {
  std::vector<std::array<double, 2>> squares(static_cast<size_t>(pieces_of(x)));
  for_each_piece("lamb_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t piece) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lamb_moments<T>)
    (squares[static_cast<size_t>(piece)].data(), place<T>(x, i, at), place<T>(g, i, at), place<T>(m, i, at),
     place<T>(v, i, at), n, s.value.adam);
  });
  std::vector<double> rates;
  auto piece = squares.begin();
  for (const Tensor& t : x) {
    double of_x = 0, of_u = 0;
    for (const auto end = piece + pieces_of(t); piece != end; ++piece)
      of_x += (*piece)[0], of_u += (*piece)[1];
    rates.push_back(s.value.rate(of_x, of_u));
  }
  update_pieces("lamb_step", x, copies, [&](auto type, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lamb_update<T>)
    (place<T>(x, i, at), place<T>(m, i, at), place<T>(v, i, at), n, rates[i], s.value.adam);
  });
}

}  // namespace vitrine::optim::cpu
#endif
