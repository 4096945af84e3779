// Parallel loops. All loops of the process share one pool of helper threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace vitrine {

/// The number of threads for loops of the calling thread: the number given to set_threads, else
/// VITRINE_THREADS (1 to 1024, else an error), else OMP_NUM_THREADS, else the number of cores that
/// the process may use.
int threads();
/// Sets the number of threads for loops of the calling thread: 1 to 1024, else an error.
void set_threads(int count);

/// True inside a parallel_for body; a nested parallel_for runs on the calling thread.
bool in_parallel();

namespace detail {
using Body = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body, void* context);
}  // namespace detail

/// Calls body(b, e) for consecutive chunks [b, e) of [begin, end), each of `grain` indices (the
/// last may be shorter). Chunks depend only on the range and the grain, so a body that writes what
/// its chunk determines gives the same bits on any number of threads. The caller takes part; it
/// waits for chunks that have begun, never for a thread. While a loop of another thread has the
/// helpers, the caller runs all chunks. Each thread (up to 64) begins with a contiguous run of
/// chunks, so that successive operations find their rows in its core's cache. The exception of the
/// lowest chunk that threw is rethrown. A forked child has its own helpers; but if a body forks,
/// the loop that the child inherits cannot end in the child.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& body) {
  using Plain = std::remove_reference_t<F>;
  detail::parallel_for(
      begin, end, grain, [](void* f, int64_t b, int64_t e) { (*static_cast<Plain*>(f))(b, e); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// The grain for loops whose iterations cost about `cost` scalar operations each: a chunk has about
/// 16k operations.
constexpr int64_t grain_for(int64_t cost) {
  constexpr int64_t kOperationsPerChunk = 1 << 14;
  return cost >= kOperationsPerChunk ? 1 : kOperationsPerChunk / (cost < 1 ? 1 : cost);
}

}  // namespace vitrine
