// The rules that update each element separately: all parameters of a group in one vectorized pass.
#include <bit>
#include <type_traits>

#include "optim/cpu/pieces.h"
#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/update.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"
#include "optim/cpu/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// The scalar's formula as this instruction set compiles it. Both come from the same text, so they
/// have the same layout.
template <class Formula>
struct InVectors;
#define VITRINE_IN_VECTORS(Name)            \
  template <>                               \
  struct InVectors<optim::formulas::Name> { \
    using type = formulas::Name;            \
  };
VITRINE_UPDATE_FORMULAS(VITRINE_IN_VECTORS)
#undef VITRINE_IN_VECTORS

/// A state that is null reads as 0 and is not written. The test costs little next to a root and a
/// division, whereas a loop for each set of states is a third of this file's compile time.
template <class T, class Formula, class X, class G, class... State>
HWY_INLINE void update_elements(size_t n, const Formula f, X x, G grad, State... states) {
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    [[maybe_unused]] const auto read = [&](T* state)
                                           HWY_ATTR { return state == nullptr ? Vec<T>(T(0)) : get(state); };
    const auto update = [&](Vec<T> element, auto... state) HWY_ATTR {
      f.update(element, get(grad), state...);
      put(x, element);
      ((states == nullptr ? void() : put(states, state)), ...);
    };
    update(get(x), read(states)...);
  });
}

template <class Formula, class T, class X, class G>
void update_row(X x, G grad, const std::array<T*, optim::kStatesOf<Formula>>& states, size_t n,
                const Formula& formula) {
  const auto f = std::bit_cast<typename InVectors<Formula>::type>(formula);
  std::apply([&](auto... state) HWY_ATTR { update_elements<T>(n, f, x, grad, state...); }, states);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::optim::cpu {

template <class Formula>
void update(List& x, List& partners, const List& g, const Tensor& factor, List& states,
            Live<Formula> formula) {
  constexpr size_t kStates = kStatesOf<Formula>;
  update_pieces(Formula::kName, x, partners, [&](auto type, auto here, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    std::array<T*, kStates> mine;
    for (size_t k = 0; k < kStates; ++k) mine[k] = place<T>(states, i * kStates + k, at);
    visit_gradient<T, decltype(here)>(g[i], factor, at, [&](auto grad) {
      VITRINE_DISPATCH(update_row<Formula, T, decltype(here), decltype(grad)>)
      (here, grad, mine, n, formula.value);
    });
  });
}

#define VITRINE_INSTANTIATE(Name) \
  template void update(List&, List&, const List&, const Tensor&, List&, Live<formulas::Name>);
VITRINE_UPDATE_FORMULAS(VITRINE_INSTANTIATE)
#undef VITRINE_INSTANTIATE

}  // namespace vitrine::optim::cpu
#endif
