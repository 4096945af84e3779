// The functions of a warp: shuffles, votes, reductions. Each of them waits for all lanes of its
// mask.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "cuda/emulator/block.h"

inline constexpr int warpSize = 32;

#define VITRINE_HERE \
  ::vitrine::emulator::Place { __FILE__, __LINE__ }
#define __syncwarp(...) (::vitrine::emulator::warp_barrier(VITRINE_HERE __VA_OPT__(, ) __VA_ARGS__))
#define __shfl_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, VITRINE_HERE, ::vitrine::emulator::From{__VA_ARGS__}))
#define __shfl_xor_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, VITRINE_HERE, ::vitrine::emulator::Xor{__VA_ARGS__}))
#define __shfl_down_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, VITRINE_HERE, ::vitrine::emulator::Down{__VA_ARGS__}))
#define __shfl_up_sync(mask, value, ...) \
  (::vitrine::emulator::shuffle(mask, value, VITRINE_HERE, ::vitrine::emulator::Up{__VA_ARGS__}))
#define __ballot_sync(mask, predicate) (::vitrine::emulator::ballot(mask, predicate, VITRINE_HERE))
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, !(predicate)) == 0)
#define __match_any_sync(mask, value) (::vitrine::emulator::match_any(mask, value, VITRINE_HERE))
#define __match_all_sync(mask, value, predicate) \
  (::vitrine::emulator::match_all(mask, value, predicate, VITRINE_HERE))
// Only this lane, because CUDA never guarantees that other lanes run in lockstep with it.
#define __activemask() (1u << ::vitrine::emulator::ThreadBlock::current().lane())
#define __reduce_add_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::plus<>()))
#define __reduce_min_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::ranges::min))
#define __reduce_max_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::ranges::max))
#define __reduce_and_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::bit_and<>()))
#define __reduce_or_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::bit_or<>()))
#define __reduce_xor_sync(mask, value) \
  (::vitrine::emulator::reduce(mask, value, VITRINE_HERE, ::std::bit_xor<>()))

namespace vitrine::emulator {

/// The lane from which a shuffle reads. Lanes are divided into groups of `width`; if the source is
/// outside the group, the lane reads its own value.
struct From {
  int source, width = 32;
  int operator()(int lane) const { return lane / width * width + (source & (width - 1)); }
};
struct Xor {
  int mask, width = 32;
  int operator()(int lane) const { return (lane ^ mask) / width > lane / width ? lane : lane ^ mask; }
};
struct Down {
  unsigned delta;
  int width = 32;
  int operator()(int lane) const {
    const int source = lane + static_cast<int>(delta);
    return source / width == lane / width ? source : lane;
  }
};
struct Up {
  unsigned delta;
  int width = 32;
  int operator()(int lane) const {
    const int source = lane - static_cast<int>(delta);
    return source >= lane / width * width ? source : lane;
  }
};

template <class T>
VITRINE_UNTRACED uint64_t to_word(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
VITRINE_UNTRACED T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

template <class T, class Source>
VITRINE_UNTRACED T shuffle(unsigned mask, T value, Place place, Source source) {
  ThreadBlock& block = ThreadBlock::current();
  const auto from = static_cast<unsigned>(source(static_cast<int>(block.lane()))) % 32;
  return from_word<T>(block.shuffle(mask, to_word(value), from, place));
}

VITRINE_UNTRACED inline unsigned ballot(unsigned mask, bool predicate, Place place) {
  const uint64_t* const values = ThreadBlock::current().exchange(mask, predicate, place);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0 && values[lane] != 0) result |= 1u << lane;
  return result;
}

/// The lanes of the mask that pass the same value as this lane.
template <class T>
VITRINE_UNTRACED unsigned match_any(unsigned mask, T value, Place place) {
  const uint64_t word = to_word(value);
  const uint64_t* const values = ThreadBlock::current().exchange(mask, word, place);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask & ThreadBlock::current().lanes()) >> lane & 1 && values[lane] == word) result |= 1u << lane;
  return result;
}

/// The mask if all its lanes pass the same value, otherwise 0.
template <class T>
VITRINE_UNTRACED unsigned match_all(unsigned mask, T value, int* predicate, Place place) {
  const unsigned all = mask & ThreadBlock::current().lanes();
  *predicate = match_any(mask, value, place) == all ? 1 : 0;
  return *predicate != 0 ? all : 0;
}

template <class T, class Merge>
VITRINE_UNTRACED T reduce(unsigned mask, T value, Place place, Merge merge) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "CUDA reduces int and unsigned");
  ThreadBlock& block = ThreadBlock::current();
  const uint64_t* const values = block.exchange(mask, to_word(value), place);
  const unsigned others = mask & block.lanes() & ~(1u << block.lane());
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((others >> lane & 1) != 0) value = merge(value, from_word<T>(values[lane]));
  return value;
}

inline void warp_barrier(Place place, unsigned mask = 0xffffffffu) {
  ThreadBlock::current().exchange(mask, 0, place, /*orders_memory=*/true);
}

}  // namespace vitrine::emulator
