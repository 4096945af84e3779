// LAMB: the moments and the norms of x and u, then the update with the rate that follows from the
// norms.
#include <bit>

#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/lamb.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// squares: Σx² and Σu².
template <class T, class X, class G>
void lamb_moments(double* squares, X x, G grad, T* m, T* v, size_t n, const optim::formulas::Lamb& numbers) {
  const auto f = std::bit_cast<formulas::Lamb>(numbers);
  Vec<double> of_x(0.0), of_u(0.0);
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    Vec<T> at = get(x), m_at = get(m), v_at = get(v);
    f.moments(get(grad), m_at, v_at);
    put(m, m_at);
    put(v, v_at);
    of_x += wide_squares(at);
    of_u += wide_squares(f.direction(at, m_at, v_at));
  });
  squares[0] = reduce_sum(of_x), squares[1] = reduce_sum(of_u);
}

template <class T, class X>
void lamb_update(X x, const T* m, const T* v, size_t n, double rate, const optim::formulas::Lamb& numbers) {
  const auto f = std::bit_cast<formulas::Lamb>(numbers);
  const Vec<T> lr(static_cast<T>(rate));
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    const Vec<T> at = get(x);
    put(x, at - lr * f.direction(at, get(m), get(v)));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {

void lamb_step(List& x, List& partners, const List& g, const Tensor& factor, List& m, List& v,
               Live<formulas::Lamb> s) {
  std::vector<std::array<double, 2>> squares(static_cast<size_t>(pieces_of(x)));
  for_each_piece("lamb_step", x, [&](auto type, size_t i, int64_t at, size_t n, int64_t piece) {
    using T = typename decltype(type)::type;
    visit_master<T>(x, partners, i, at, [&](auto here) {
      visit_gradient<T, decltype(here)>(g[i], factor, at, [&](auto grad) {
        VITRINE_DISPATCH(lamb_moments<T, decltype(here), decltype(grad)>)
        (squares[static_cast<size_t>(piece)].data(), here, grad, place<T>(m, i, at), place<T>(v, i, at), n,
         s.value);
      });
    });
  });
  std::vector<double> rates;
  auto piece = squares.begin();
  for (const Tensor& t : x) {
    double of_x = 0, of_u = 0;
    for (const auto end = piece + pieces_of(t); piece != end; ++piece)
      of_x += (*piece)[0], of_u += (*piece)[1];
    rates.push_back(s.value.rate(of_x, of_u));
  }
  update_pieces("lamb_step", x, partners, [&](auto type, auto here, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    VITRINE_DISPATCH(lamb_update<T, decltype(here)>)
    (here, place<T>(m, i, at), place<T>(v, i, at), n, rates[i], s.value);
  });
}

}  // namespace vitrine::optim::cpu
#endif
