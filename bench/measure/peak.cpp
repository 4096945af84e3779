#include "bench/measure/peak.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "bench/measure/clock.h"
#include "core/simd/isa.h"

namespace vitrine::bench {
namespace {

/// Rounds of independent chains x = x · m + c, and how many operations a round has.
struct Chains {
  int64_t operations;
  void (*run)(int64_t rounds, float* sink);
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void chains_avx512(int64_t rounds, float* sink) {
  __m512 x[12];
  for (auto& v : x) v = _mm512_set1_ps(*sink);
  const __m512 m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& v : x) v = _mm512_fmadd_ps(v, m, c);
  for (auto& v : x) *sink += v[0];
}
__attribute__((target("avx2,fma"))) void chains_avx2(int64_t rounds, float* sink) {
  __m256 x[12];
  for (auto& v : x) v = _mm256_set1_ps(*sink);
  const __m256 m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& v : x) v = _mm256_fmadd_ps(v, m, c);
  for (auto& v : x) *sink += v[0];
}
#endif

Chains chains() {
#if defined(__x86_64__)
  if (isa() >= Isa::avx512) return {12 * 16 * 2, chains_avx512};
  if (isa() == Isa::avx2) return {12 * 8 * 2, chains_avx2};
#endif
  return {2, [](int64_t rounds, float* sink) {
            for (int64_t i = 0; i < rounds; ++i) *sink = *sink * 0.999f + 0.001f;
          }};
}

}  // namespace

double multiply_add_peak() {
  constexpr int64_t kRounds = 1'000'000;
  const Chains c = chains();
  double best = 1e300;
  float sink = 1;
  for (int i = 0; i < 20; ++i) {
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    c.run(kRounds, &sink);
    best = std::min(best, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  if (sink == 12345) std::puts("");  // keeps the result alive
  return static_cast<double>(c.operations * kRounds) / best;
}

}  // namespace vitrine::bench
