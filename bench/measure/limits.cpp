#include "bench/measure/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/measure/clock.h"
#include "core/parallel.h"
#include "core/simd/isa.h"
#include "core/simd/row_functions.h"

namespace vitrine::bench {
namespace {

constexpr int kChains = 12;  // independent, so that none waits for the result before it

/// Rounds of chains x = x · m + c, and how many operations a round has.
struct Chains {
  int64_t operations;
  void (*run)(int64_t rounds, float* sink);
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void chains_avx512(int64_t rounds, float* sink) {
  __m512 x[kChains];
  for (auto& v : x) v = _mm512_set1_ps(*sink);
  const __m512 m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& v : x) v = _mm512_fmadd_ps(v, m, c);
  for (auto& v : x) *sink += v[0];
}
__attribute__((target("avx512f,avx512bf16"))) void chains_bfloat16(int64_t rounds, float* sink) {
  __m512 x[kChains];
  for (auto& v : x) v = _mm512_set1_ps(*sink);
  // Pairs of 2⁻⁷ and 1: the sums grow slowly.
  const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3c003c00), b = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& v : x) v = _mm512_dpbf16_ps(v, a, b);
  for (auto& v : x) *sink += v[0];
}
__attribute__((target("avx2,fma"))) void chains_avx2(int64_t rounds, float* sink) {
  __m256 x[kChains];
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
  if (isa() >= Isa::avx512) return {kChains * 16 * 2, chains_avx512};
  if (isa() == Isa::avx2) return {kChains * 8 * 2, chains_avx2};
#endif
  return {2, [](int64_t rounds, float* sink) {
            for (int64_t i = 0; i < rounds; ++i) *sink = *sink * 0.999f + 0.001f;
          }};
}

/// Operations per second of the fastest of some runs.
double speed(const Chains& c) {
  constexpr int64_t kRounds = 1'000'000;
  double shortest = 1e300;
  float sink = 1;
  for (int i = 0; i < 20; ++i) {
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    c.run(kRounds, &sink);
    shortest = std::min(shortest, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  if (sink == 12345) std::puts("");  // keeps the result alive
  return static_cast<double>(c.operations * kRounds) / shortest;
}

/// Bytes per second of f(begin, size) over arrays of kFloats, in pieces that the threads take.
template <class F>
double stream(int64_t floats, double bytes_per_float, F&& f) {
  constexpr int64_t kPiece = 1 << 16;
  double shortest = 1e300;
  for (int i = 0; i < 7; ++i) {
    const double start = seconds();
    parallel_for(0, floats / kPiece, 1, [&](int64_t begin, int64_t end) {
      f(begin * kPiece, static_cast<size_t>((end - begin) * kPiece));
    });
    shortest = std::min(shortest, seconds() - start);
  }
  return bytes_per_float * static_cast<double>(floats) / shortest;
}

}  // namespace

double multiply_add_peak() { return speed(chains()); }

double bfloat16_peak() {
#if defined(__x86_64__)
  if (detail::includes(isa(), Isa::avx512_bf16)) return speed({kChains * 16 * 4, chains_bfloat16});
#endif
  return 0;
}

Bandwidth bandwidth() {
  constexpr int64_t kFloats = int64_t{64} << 20;  // 256 MiB each
  std::vector<float> x(kFloats, 1.0f), y(kFloats, 2.0f);
  Bandwidth result;
  result.read = stream(kFloats, 8, [&](int64_t i, size_t n) {
    if (vecmath::dot(&x[static_cast<size_t>(i)], &y[static_cast<size_t>(i)], n) == 0) std::puts("");
  });
  result.update = stream(kFloats, 8, [&](int64_t i, size_t n) {
    float* const at = &x[static_cast<size_t>(i)];
    vecmath::scale(at, at, 0.999f, n);
  });
  result.copy = stream(kFloats, 8, [&](int64_t i, size_t n) {
    vecmath::scale(&y[static_cast<size_t>(i)], &x[static_cast<size_t>(i)], 1.0f, n);
  });
  return result;
}

}  // namespace vitrine::bench
