// One thread runtime for everything: OpenMP.
#pragma once

#include <cstdint>
#include <type_traits>

namespace vitrine {

/// Number of threads that parallel_for uses: OMP_NUM_THREADS, or the number of cores, or what set_threads said.
int threads();
/// For calls from this thread. 1 to 1024, else an error.
void set_threads(int count);

/// True inside a parallel_for body; a nested parallel_for runs on the calling thread.
bool in_parallel();

namespace detail {
using Body = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body, void* context);
}  // namespace detail

/// Calls body(b, e) for consecutive chunks [b, e) of [begin, end), each of `grain` indices (the last may be shorter).
/// Chunks depend on the range and the grain only, never on the number of threads, so a body that writes what its
/// chunk determines gives the same bits on any number of threads. Each thread (up to 64) begins with a contiguous run of chunks,
/// so that operations in turn find their rows in its core's cache; one that is done takes what the others have not begun.
/// The first exception (of the lowest chunk that threw) is rethrown on the calling thread.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& body) {
  using Plain = std::remove_reference_t<F>;
  detail::parallel_for(
      begin, end, grain, [](void* f, int64_t b, int64_t e) { (*static_cast<Plain*>(f))(b, e); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// A grain for loops whose iterations cost about `cost` scalar operations each: chunks of some 16k operations.
constexpr int64_t grain_for(int64_t cost) {
  constexpr int64_t kOperationsPerChunk = 1 << 14;
  return cost >= kOperationsPerChunk ? 1 : kOperationsPerChunk / (cost < 1 ? 1 : cost);
}

}  // namespace vitrine
