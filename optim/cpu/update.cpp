// The rules that update each element separately: all parameters of a group in one vectorized pass.
#include <bit>
#include <type_traits>

#include "core/stochastic_rounding.h"
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

using optim::cpu::StatePointer;

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

/// A state that is null reads as 0 and is not written. The tests cost little next to a root and a
/// division, whereas a loop for each set of states is a third of this file's compile time.
template <class T, class Formula, class X, class G, class... State>
HWY_INLINE void update_elements(size_t n, const Formula f, X x, G grad, State... states) {
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    [[maybe_unused]] const auto read = [&](StatePointer<T> state) HWY_ATTR {
      if constexpr (std::is_same_v<T, float>)
        if (state.narrow.x != nullptr) return get(state.narrow);
      return state.wide == nullptr ? Vec<T>(T(0)) : get(state.wide);
    };
    [[maybe_unused]] const auto write = [&](StatePointer<T> state, Vec<T> value) HWY_ATTR {
      if constexpr (std::is_same_v<T, float>)
        if (state.narrow.x != nullptr) return put(state.narrow, value);
      if (state.wide != nullptr) put(state.wide, value);
    };
    const auto update = [&](Vec<T> element, auto... state) HWY_ATTR {
      f.update(element, get(grad), state...);
      put(x, element);
      (write(states, state), ...);
    };
    update(get(x), read(states)...);
  });
}

template <class Formula, class T, class X, class G>
void update_row(X x, G grad, const std::array<StatePointer<T>, optim::kStatesOf<Formula>>& states, size_t n,
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
            Live<Step<Formula>> step) {
  constexpr size_t kStates = kStatesOf<Formula>;
  update_pieces(Formula::kName, x, partners, [&](auto type, auto here, size_t i, int64_t at, size_t n) {
    using T = typename decltype(type)::type;
    std::array<StatePointer<T>, kStates> mine;
    for (uint32_t k = 0; k < kStates; ++k)
      mine[k] =
          state_at<T>(states, i * kStates + k, at, rounding_key(static_cast<uint32_t>(step.value.number), k));
    visit_gradient<T, decltype(here)>(g[i], factor, at, [&](auto grad) {
      VITRINE_DISPATCH(update_row<Formula, T, decltype(here), decltype(grad)>)
      (here, grad, mine, n, step.value.formula);
    });
  });
}

#define VITRINE_INSTANTIATE(Name) \
  template void update(List&, List&, const List&, const Tensor&, List&, Live<Step<formulas::Name>>);
VITRINE_UPDATE_FORMULAS(VITRINE_INSTANTIATE)
#undef VITRINE_INSTANTIATE

}  // namespace vitrine::optim::cpu
#endif
