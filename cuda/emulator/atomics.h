// Atomic operations, for the types that CUDA supports, and fences. At each of them, and in
// __nanosleep, other threads of the block run. So a thread that spins until another thread has
// written sees the result.
#pragma once

#include <type_traits>

#include "cuda/emulator/block.h"

namespace vitrine::emulator {

template <class T, class... Types>
concept OneOf = (std::is_same_v<T, Types> || ...);

/// Replaces the value by change(value), and reports the access at `pc` to the trace. Returns the
/// old value.
template <class T, class Change>
VITRINE_UNTRACED T change_atomically(T* address, const void* pc, Change change) {
  pass_turn();
  note_access(address, sizeof(T), Access::atomic_write, pc);
  T old, changed;
  __atomic_load(address, &old, __ATOMIC_SEQ_CST);
  do {
    changed = change(old);
  } while (!__atomic_compare_exchange(address, &old, &changed, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}

}  // namespace vitrine::emulator

// Not inlined, so that the trace gets the line of the kernel.
#define VITRINE_ATOMIC(name, result, ...)                                                        \
  template <::vitrine::emulator::OneOf<__VA_ARGS__> T>                                           \
  __attribute__((noinline)) VITRINE_UNTRACED T name(T* address, std::type_identity_t<T> value) { \
    return ::vitrine::emulator::change_atomically(address, __builtin_return_address(0),          \
                                                  [value]([[maybe_unused]] T old)                \
                                                      VITRINE_UNTRACED -> T { return result; }); \
  }
VITRINE_ATOMIC(atomicAdd, old + value, int, unsigned, unsigned long long, float, double)
VITRINE_ATOMIC(atomicSub, old - value, int, unsigned)
VITRINE_ATOMIC(atomicExch, value, int, unsigned, unsigned long long, float)
VITRINE_ATOMIC(atomicMin, value < old ? value : old, int, unsigned, long long, unsigned long long)
VITRINE_ATOMIC(atomicMax, value > old ? value : old, int, unsigned, long long, unsigned long long)
VITRINE_ATOMIC(atomicAnd, old& value, int, unsigned, long long, unsigned long long)
VITRINE_ATOMIC(atomicOr, old | value, int, unsigned, long long, unsigned long long)
VITRINE_ATOMIC(atomicXor, old ^ value, int, unsigned, long long, unsigned long long)
VITRINE_ATOMIC(atomicInc, old >= value ? 0 : old + 1, unsigned)
VITRINE_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1, unsigned)
#undef VITRINE_ATOMIC

template <::vitrine::emulator::OneOf<int, unsigned, unsigned short, unsigned long long> T>
__attribute__((noinline)) VITRINE_UNTRACED T atomicCAS(T* address, std::type_identity_t<T> compare,
                                                       std::type_identity_t<T> value) {
  return ::vitrine::emulator::change_atomically(
      address, __builtin_return_address(0),
      [=](T old) VITRINE_UNTRACED { return old == compare ? value : old; });
}

inline void __threadfence() { vitrine::emulator::fence(); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { vitrine::emulator::pass_turn(); }
