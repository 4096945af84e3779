// Values that differ from replay to replay of a graph (core/gpu/step_graph.h): learning rates, step
// counts, positions of generators. The CPU computes them again before each replay and writes them
// to the GPU's memory, where the graph's kernels read them.
//
//   // a kernel takes Live<formulas::Lamb>
//   VITRINE_RUN(lamb_step, x, g, m, live([this] { return formulas::Lamb{lr(), …}; }));
//   each_time([this] { ++steps_; });
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>

#include "core/tensor.h"

namespace vitrine {

/// An argument of a kernel: its value or, in a graph, a pointer to its value in GPU memory.
template <class T>
struct Live {
  T value{};
  const T* in_graph = nullptr;
  VITRINE_HD T get() const { return in_graph == nullptr ? value : *in_graph; }
};

namespace detail {
/// Whether this thread captures a graph.
bool capturing();
/// An error that begins with `op` if this thread captures a graph. Called where the CPU needs
/// results, which no kernel has computed yet.
void refuse_in_capture(std::string_view op);
/// Notes that a kernel of the graph uses x, or writes it.
void note_use(const Tensor& x);
void note_write(const Tensor& x);
/// GPU memory of `bytes` bytes. Before each replay, `compute` writes the values into a CPU copy,
/// which is then transferred.
const void* live_memory(size_t bytes, std::function<void(void*)> compute);
}  // namespace detail

/// The value of f(), which must be trivially copyable. In a graph f is called again before each
/// replay, in the order of the calls of live() and each_time().
template <class F>
auto live(F f) -> Live<std::invoke_result_t<F>> {
  using T = std::invoke_result_t<F>;
  static_assert(std::is_trivially_copyable_v<T>);
  if (!detail::capturing()) return {f()};
  return {T{}, static_cast<const T*>(
                   detail::live_memory(sizeof(T), [f](void* to) { *static_cast<T*>(to) = f(); }))};
}

/// Runs f now or, while a graph is captured, before each replay instead. For values that the CPU
/// counts.
void each_time(std::function<void()> f);

}  // namespace vitrine
