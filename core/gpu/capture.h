// What is another number in each replay of a graph (core/gpu/step_graph.h): learning rates, steps,
// positions of generators. The CPU works them out again before each replay and writes them to the
// GPU's memory, where the graph's kernels read them.
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

/// An argument of a kernel: its value, and in a graph where it lies on the GPU.
template <class T>
struct Live {
  T value{};
  const T* in_graph = nullptr;
  VITRINE_HD T get() const { return in_graph == nullptr ? value : *in_graph; }
};

namespace detail {
/// Whether this thread captures a graph.
bool capturing();
/// An error that names `op`, which wants what no kernel has computed yet, while this thread
/// captures a graph.
void refuse_in_capture(std::string_view op);
/// A kernel of the graph uses x, or writes it.
void note_use(const Tensor& x);
void note_write(const Tensor& x);
/// A GPU's memory of that size, into whose twin `compute` writes before each replay.
const void* live_memory(size_t bytes, std::function<void(void*)> compute);
}  // namespace detail

/// f(), of trivially copyable type; in a graph f() again before each replay, in the order of the
/// calls of live and each_time.
template <class F>
auto live(F f) -> Live<std::invoke_result_t<F>> {
  using T = std::invoke_result_t<F>;
  static_assert(std::is_trivially_copyable_v<T>);
  if (!detail::capturing()) return {f()};
  return {T{}, static_cast<const T*>(
                   detail::live_memory(sizeof(T), [f](void* to) { *static_cast<T*>(to) = f(); }))};
}

/// Runs f; while a graph is captured not then, but before each replay: for what the CPU counts.
void each_time(std::function<void()> f);

}  // namespace vitrine
