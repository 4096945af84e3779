// Cuts all tensors of a group into pieces, for the CPU kernels.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "core/simd/pointers.h"
#include "core/simd/row_functions.h"
#include "core/tensor.h"

namespace vitrine::optim::cpu {

inline constexpr int64_t kPiece = 1 << 14;  // elements

inline int64_t pieces_of(const Tensor& x) { return (x.numel() + kPiece - 1) / kPiece; }
inline int64_t pieces_of(const std::vector<Tensor>& xs) {
  int64_t count = 0;
  for (const Tensor& x : xs) count += pieces_of(x);
  return count;
}

/// Calls f(Type<T>{}) with the type T in which x is computed: float or double.
template <class F>
void visit_type(const char* op, const Tensor& x, F&& f) {
  if (x.dtype() == DType::float32 || is_low_precision(x.dtype())) return f(Type<float>{});
  check(x.dtype() == DType::float64, "{}: wanted a floating dtype, got {}", op, describe(x));
  f(Type<double>{});
}

/// Calls f(Type<T>{}, tensor, begin, size, piece) in parallel for the pieces of all tensors. The
/// pieces depend only on the tensors' sizes.
template <class F>
void for_each_piece(const char* op, const std::vector<Tensor>& xs, F&& f) {
  std::vector<std::pair<size_t, int64_t>> pieces;
  for (size_t i = 0; i < xs.size(); ++i)
    for (int64_t at = 0; at < xs[i].numel(); at += kPiece) pieces.emplace_back(i, at);
  parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t n = b; n < e; ++n) {
      const size_t i = pieces[static_cast<size_t>(n)].first;
      const int64_t begin = pieces[static_cast<size_t>(n)].second;
      const auto size = static_cast<size_t>(std::min(kPiece, xs[i].numel() - begin));
      visit_type(op, xs[i], [&](auto type) { f(type, i, begin, size, n); });
    }
  });
}

/// Element `at` of list[i], or null if the list is empty or has no such tensor.
template <class T>
T* place(const std::vector<Tensor>& list, size_t i, int64_t at) {
  return list.empty() || !list[i].defined() ? nullptr : list[i].data<T>() + at;
}

/// Elements of a state: an array, or bfloat16 with stochastic rounding. Both are null if there is
/// no such state.
template <class T>
struct StatePointer {
  T* wide = nullptr;
  StochasticPointer narrow = {};
};

/// Element `at` of states[i]. The key is for bfloat16 states.
template <class T>
StatePointer<T> state_at(const std::vector<Tensor>& states, size_t i, int64_t at, uint32_t key) {
  if constexpr (std::is_same_v<T, float>)
    if (states[i].defined() && states[i].dtype() == DType::bfloat16)
      return {.narrow = {states[i].data<bfloat16>() + at, static_cast<uint32_t>(at), key}};
  return {.wide = place<T>(states, i, at)};
}

/// The factor of the gradients: 1 if the tensor is undefined.
template <class T>
T factor_of(const Tensor& factor) {
  return factor.defined() ? static_cast<T>(*factor.data<double>()) : T(1);
}

/// Calls f(g) with a pointer to element `at` of a gradient times the factor: ScaledPointer<T>, or
/// ScaledPointer<bfloat16>. X is the pointer to the master: only those in halves have gradients in
/// bfloat16.
template <class T, class X = HalvesPointer, class F>
void visit_gradient(const Tensor& g, const Tensor& factor, int64_t at, F&& f) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<X, HalvesPointer>)
    if (g.dtype() == DType::bfloat16)
      return f(ScaledPointer<bfloat16>{g.data<bfloat16>() + at, factor_of<float>(factor)});
  f(ScaledPointer<T>{g.data<T>() + at, factor_of<T>(factor)});
}

/// Calls f(x) with a pointer to element `at` of master i: T*, or HalvesPointer if x[i] is the upper
/// half of the master and partners[i] the lower half.
template <class T, class F>
void visit_master(const std::vector<Tensor>& x, const std::vector<Tensor>& partners, size_t i, int64_t at,
                  F&& f) {
  if constexpr (std::is_same_v<T, float>)
    if (x[i].dtype() == DType::bfloat16)
      return f(HalvesPointer{x[i].data<bfloat16>(), static_cast<uint16_t*>(partners[i].raw())} +
               static_cast<size_t>(at));
  f(x[i].data<T>() + at);
}

/// Updates the float16 copy of x[i], if there is one, from elements at … at + n − 1, which are
/// still in cache.
template <class T>
void round_copy(std::vector<Tensor>& partners, const std::vector<Tensor>& x, size_t i, int64_t at, size_t n) {
  if (partners.empty() || !partners[i].defined() || x[i].dtype() == DType::bfloat16) return;
  vecmath::convert(partners[i].data<float16>() + at, x[i].data<T>() + at, n);
}

/// Calls f(Type<T>{}, x, tensor, begin, size) for all pieces, where f updates the elements from x
/// on (see visit_master), and updates their float16 copies.
template <class F>
void update_pieces(const char* op, const std::vector<Tensor>& xs, std::vector<Tensor>& partners, F&& f) {
  for_each_piece(op, xs, [&](auto type, size_t i, int64_t at, size_t n, int64_t) {
    using T = typename decltype(type)::type;
    visit_master<T>(xs, partners, i, at, [&](auto x) { f(type, x, i, at, n); });
    round_copy<T>(partners, xs, i, at, n);
  });
}

}  // namespace vitrine::optim::cpu
