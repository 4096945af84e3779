// The rules that treat each element by itself (optim/formulas-inl.h), all parameters of a group in
// one launch (cuda/pieces.h). Every number is read once and written once. This memory traffic, not
// arithmetic, determines the time of a step.
#include <utility>

#include "core/convert.h"
#include "cuda/pieces.h"
#include "optim/kernels.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

/// Lists of a table: x, its partners, gradients, states.
template <class Formula>
using Table = Pieces<3 + static_cast<int>(kStatesOf<Formula>)>;

template <class T, class Formula, size_t... K>
__device__ void update_piece(const Step<Formula>& step, const Table<Formula>& table, const double* factor,
                             std::index_sequence<K...>) {
  const Piece piece = this_piece(table);
  const auto update = [&](T& x, T grad, auto&... state) { step.formula.update(x, grad, state...); };
  update_elements(piece.size, update, table.template master<T>(piece),
                  table.template gradient<T>(2, piece, factor),
                  table.template state<T>(3 + static_cast<int>(K), piece,
                                          rounding_key(static_cast<uint32_t>(step.number), K))...);
}

template <class T, class Formula>
__global__ void update_kernel(Table<Formula> table, const double* factor, Live<Step<Formula>> step) {
  update_piece<T>(step.get(), table, factor, std::make_index_sequence<kStatesOf<Formula>>());
}

}  // namespace

template <class Formula>
void update(List& x, List& partners, const List& g, const Tensor& factor, List& states,
            Live<Step<Formula>> step) {
  constexpr size_t kLists = 3 + kStatesOf<Formula>;
  std::array<List, kLists> lists = {x, partners, g};
  std::array<const List*, kLists> places;
  for (size_t k = 0; k < kLists; ++k) {
    places[k] = &lists[k];
    for (size_t i = 0; k >= 3 && i < x.size(); ++i) lists[k].push_back(states[i * (kLists - 3) + k - 3]);
  }
  for_each_table<static_cast<int>(kLists), double>(
      Formula::kName, places, {}, [&](auto type, const Table<Formula>& table, unsigned blocks, int64_t) {
        using T = typename decltype(type)::type;
        VITRINE_LAUNCH((update_kernel<T, Formula>), blocks, kThreads, 0, table, address_of(factor), step);
      });
}

#define VITRINE_INSTANTIATE(Name) \
  template void update(List&, List&, const List&, const Tensor&, List&, Live<Step<formulas::Name>>);
VITRINE_UPDATE_FORMULAS(VITRINE_INSTANTIATE)
#undef VITRINE_INSTANTIATE

}  // namespace vitrine::optim::cuda
