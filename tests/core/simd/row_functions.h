// Functions that the tests of the vector functions share: every instruction set, every type, and
// pseudo-random numbers.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/simd/isa.h"
#include "core/simd/row_functions.h"

namespace vitrine::test {

/// Runs `body` with every instruction set that this machine supports.
template <class F>
void on_every_isa(F body) {
  for (const Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (set > detail::best_isa()) continue;
    const detail::IsaScope scope(set);
    INFO("instruction set ", std::string(name(set)));
    body();
  }
}

/// Calls body(S{}) for each of the four types.
template <class F>
void for_every_type(F body) {
  body(float{});
  body(double{});
  body(bfloat16{});
  body(float16{});
}

/// Pseudo-random numbers, the same on every run.
struct Sequence {
  uint64_t state = 0;
  uint64_t next() {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
};

template <class S>
std::vector<S> random_row(size_t n, double low, double high, uint64_t seed) {
  Sequence random{seed};
  std::vector<S> x(n);
  for (S& v : x) v = static_cast<S>(static_cast<AccumulatorOf<S>>(random.uniform(low, high)));
  return x;
}

}  // namespace vitrine::test
