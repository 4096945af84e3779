// Vectors: elements that a thread reads and writes together. Memory has a high latency and a high
// bandwidth: it is busy only if enough bytes are in flight. If each lane reads 16 bytes, one
// instruction of a warp requests 512 bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/float16.h"
#include "cuda/launch.h"

namespace vitrine::cuda {

inline constexpr int kVectorBytes = 16;  // the most bytes that one instruction moves

/// N neighbouring elements.
template <class T, int N>
struct alignas(N * sizeof(T) < kVectorBytes ? N * sizeof(T) : kVectorBytes) Vector {
  T at[N];
};

/// The number of elements that a thread processes at a time, if the widest element has this size.
/// Elements of 8 bytes are processed one at a time: this gives half of the bandwidth, but the long
/// formulas of doubles are not compiled a second time.
constexpr int lanes_of(size_t widest) { return widest < 8 ? static_cast<int>(kVectorBytes / widest) : 1; }

template <class... T>
inline constexpr int kLanes = [] {
  size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return lanes_of(widest);
}();

template <int N, class T>
VITRINE_HD bool is_aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % alignof(Vector<T, N>) == 0;
}

#if VITRINE_CUDA_EMULATED
template <int N, class T>
VITRINE_UNTRACED Vector<T, N> load(const T* p) {
  emulator::note_vector(p, sizeof(T), N, emulator::Access::read, __builtin_return_address(0));
  return *reinterpret_cast<const Vector<T, N>*>(p);
}
template <class T, int N>
VITRINE_UNTRACED void store(T* p, const Vector<T, N>& x) {
  emulator::note_vector(p, sizeof(T), N, emulator::Access::write, __builtin_return_address(0));
  *reinterpret_cast<Vector<T, N>*>(p) = x;
}
#else
/// The N elements from p on. Requires is_aligned<N>(p).
template <int N, class T>
__device__ Vector<T, N> load(const T* p) {
  return *reinterpret_cast<const Vector<T, N>*>(p);
}
template <class T, int N>
__device__ void store(T* p, const Vector<T, N>& x) {
  if constexpr (sizeof(x) % sizeof(uint4) == 0) {
    struct Parts {
      uint4 at[sizeof(x) / sizeof(uint4)];
    };
    const auto parts = std::bit_cast<Parts>(x);
    // 16 bytes per instruction; nvcc would split an assignment. The instruction has no state space,
    // so p may also be shared memory.
    for (size_t i = 0; i < sizeof(x) / sizeof(uint4); ++i)
      asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<uint4*>(p) + i),
                   "r"(parts.at[i].x), "r"(parts.at[i].y), "r"(parts.at[i].z), "r"(parts.at[i].w)
                   : "memory");
  } else {
    *reinterpret_cast<Vector<T, N>*>(p) = x;
  }
}
#endif

/// f(x…) of each lane.
template <int N, class F, class... T>
__device__ auto map(const F& f, const Vector<T, N>&... x) {
  Vector<decltype(f(x.at[0]...)), N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y.at[k] = f(x.at[k]...);
  return y;
}

/// A number of lanes that is known at compile time.
template <int N>
struct Lanes {
  __device__ constexpr operator int() const { return N; }
};

/// Loops over the elements 0 ≤ i < n of arrays, with the threads of a block. Calls f(i, Lanes<N>{})
/// for the elements i … i + N − 1: 16 bytes of the first array, aligned in every array. The first
/// and last elements are passed one at a time, as Lanes<1>. All elements are, if the arrays are not
/// aligned at the same index. Null arrays are ignored.
template <class F, class First, class... T>
__device__ void for_each_vector(int64_t n, const F& f, const First* first, const T*... others) {
  constexpr int N = kLanes<First>;
  int64_t head = 0, vectors = 0;
  if constexpr (N > 1) {
    while (head < N && head < n && !is_aligned<N>(first + head)) ++head;
    const bool together = ((others == nullptr || is_aligned<N>(others + head)) && ...);
    if (together) vectors = (n - head) / N;
    for (int64_t v = threadIdx.x; v < vectors; v += blockDim.x) f(head + v * N, Lanes<N>{});
  }
  const int64_t alone = n - vectors * N;
  for (int64_t i = threadIdx.x; i < alone; i += blockDim.x) f(i < head ? i : i + vectors * N, Lanes<1>{});
}

/// Calls f(x[i]…) for 0 ≤ i < n, with the threads of a block.
template <class F, class... T>
__device__ void for_each_element(int64_t n, const F& f, const T*... x) {
  for_each_vector(
      n,
      [&](int64_t i, auto lanes) {
        const auto call = [&](const auto&... vectors) {
#pragma unroll
          for (int k = 0; k < lanes; ++k) f(vectors.at[k]...);
        };
        call(load<lanes>(x + i)...);
      },
      x...);
}

/// y[i] = f(x[i]…) for 0 ≤ i < n, with the threads of a block.
template <class F, class Y, class... T>
__device__ void map_elements(int64_t n, const F& f, Y* y, const T*... x) {
  for_each_vector(
      n, [&](int64_t i, auto lanes) { store(y + i, map<lanes>(f, load<lanes>(x + i)...)); }, y, x...);
}

/// The present values of N neighbouring elements from p[i] on; 0 if p is null.
template <class T, int N>
struct Held {
  T* p;
  int64_t i;
  Vector<std::remove_const_t<T>, N> value = {};

  __device__ Held(T* p, int64_t i) : p(p), i(i) {
    if (p != nullptr) value = load<N>(p + i);
  }
  __device__ void write_back() const {
    if constexpr (!std::is_const_v<T>)
      if (p != nullptr) store(p + i, value);
  }
};

/// Calls f(x[i]…) for 0 ≤ i < n, with the threads of a block, where f may change its arguments.
/// Arguments from arrays that are not const are written back. For a null array, f gets 0 and
/// nothing is written.
template <class F, class... T>
__device__ void update_elements(int64_t n, const F& f, T*... x) {
  for_each_vector(
      n,
      [&](int64_t i, auto lanes) {
        const auto update = [&](auto... held) {
#pragma unroll
          for (int k = 0; k < lanes; ++k) f(held.value.at[k]...);
          (held.write_back(), ...);
        };
        update(Held<T, lanes>(x, i)...);
      },
      x...);
}

}  // namespace vitrine::cuda
