// The packed product of bfloat16 operands by vdpbf16ps, which multiplies pairs and adds them in
// float32.
#include "ops/cpu/gemm/task.h"

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// False alarms inside immintrin.h of GCC 12.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

VITRINE_TARGET_BEGIN("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,avx512bf16")
namespace vitrine::cpu {
namespace {

#include "ops/cpu/gemm/avx512-inl.h"

/// Units are pairs of bfloat16, neighbours in k. vdpbf16ps rounds after each of its two additions
/// and treats subnormals as 0.
struct Avx512Pairs : Avx512 {
  static constexpr int kPerUnit = 2;
  static constexpr int64_t kDepth = 2 * Avx512::kDepth;

  /// A unit is read as an integer, because rows of A are read in place as bfloat16.
  static V broadcast(const float* unit) {
    int pair;
    std::memcpy(&pair, unit, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
  }
  static V fma(V x, V y, V z) {
    return _mm512_dpbf16_ps(z, (__m512bh)_mm512_castps_si512(x), (__m512bh)_mm512_castps_si512(y));
  }
  static V load_units(const bfloat16* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
  static V load_units_partial(const bfloat16* p, int64_t n) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32)((uint64_t{1} << n) - 1), p));
  }
  static V interleave(__m256i even, __m256i odd) {
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16)));
  }
  static V load_columns(const bfloat16* p, const bfloat16* pair) {
    return load_columns_partial(p, pair, kWidth);
  }
  static V load_columns_partial(const bfloat16* p, const bfloat16* pair, int64_t n) {
    return interleave(_mm256_maskz_loadu_epi16(first(n), p),
                      pair ? _mm256_maskz_loadu_epi16(first(n), pair) : _mm256_setzero_si256());
  }
};

#include "ops/cpu/gemm/blocked-inl.h"
#include "ops/cpu/gemm/thin-inl.h"

}  // namespace

template <class T, class TC>
void avx512_bf16::gemm(const GemmTask<T, TC>& task) {
  run_task<Avx512Pairs>(task);
}
template <class T>
void avx512_bf16::pack(const GemmTask<T, float>& task, float* to) {
  Blocked<Avx512Pairs, T, float>(task).pack(to);
}
template void avx512_bf16::gemm(const GemmTask<bfloat16, float>&);
template void avx512_bf16::gemm(const GemmTask<bfloat16, bfloat16>&);
template void avx512_bf16::pack(const GemmTask<bfloat16, float>&, float*);

}  // namespace vitrine::cpu
VITRINE_TARGET_END

#endif
