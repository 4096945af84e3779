// The packed matrix product for AVX2 with FMA: 6 by 16 tiles, 12 of the 16 registers hold sums.
#include "ops/cpu/gemm/task.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

VITRINE_TARGET_BEGIN("avx2,fma,f16c")
namespace vitrine::cpu {
namespace {

struct Avx2 {
  using V = __m256;
  static constexpr int kWidth = 8, kPerUnit = 1;
  static constexpr int kTileRows = 6, kStrip = 2;
  // A block of B, 288 KiB, and a panel of A share a second cache of 512 KiB.
  static constexpr int64_t kDepth = kAvx2Block.depth, kColumns = kAvx2Block.columns, kRows = 72;
  static constexpr bool kFetchC = true;
  static constexpr int64_t kFewRows = 16, kFewColumns = 32;

  static V zero() { return _mm256_setzero_ps(); }
  static V set(float x) { return _mm256_set1_ps(x); }
  static V broadcast(const float* x) { return _mm256_set1_ps(*x); }
  static V add(V x, V y) { return _mm256_add_ps(x, y); }
  static V mul(V x, V y) { return _mm256_mul_ps(x, y); }
  static V fma(V x, V y, V z) { return _mm256_fmadd_ps(x, y, z); }
  static V fma_float(V x, V y, V z) { return _mm256_fmadd_ps(x, y, z); }

  static V widen(__m128i bits, bfloat16) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static V widen(__m128i bits, float16) { return _mm256_cvtph_ps(bits); }

  /// The first and the second number of each pair of bfloat16, as floats.
  static V low(V pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16)); }
  static V high(V pairs) { return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(-0x10000))); }

  /// Numbers in 8 bits, less 128.
  static V levels(const uint8_t* p) {
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(x, _mm256_set1_epi32(128)));
  }

  /// A mask with lanes i < n all ones; n from 0 to 8.
  static __m256i first(int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load_partial(const float* p, int64_t n) { return _mm256_maskload_ps(p, first(n)); }
  static void store(float* p, V x) { _mm256_storeu_ps(p, x); }
  static void store_partial(float* p, V x, int64_t n) { _mm256_maskstore_ps(p, first(n), x); }
  template <class T>
  static V load(const T* p) {
    return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), T());
  }
  template <class T>
  static V load_partial(const T* p, int64_t n) {
    if (n == kWidth) return load(p);
    alignas(16) T lanes[kWidth] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  template <class T>
  static void store_partial(T* p, V x, int64_t n) {
    alignas(32) float lanes[kWidth];
    store(lanes, x);
    for (int64_t i = 0; i < n; ++i) p[i] = T(lanes[i]);
  }

  template <class T>
  static V load_units(const T* p) {
    return load(p);
  }
  template <class T>
  static V load_units_partial(const T* p, int64_t n) {
    return load_partial(p, n);
  }
  template <class T>
  static V load_columns(const T* p, const T*) {
    return load(p);
  }
  template <class T>
  static V load_columns_partial(const T* p, const T*, int64_t n) {
    return load_partial(p, n);
  }

  /// The sums of the lanes of four vectors.
  static void sum4(const V* x, float* to) {
    const V s = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
  }

  /// Transposes 8 by 8 floats: pairs of rows, pairs of pairs, then halves.
  static inline __attribute__((always_inline)) void transpose(V (&x)[8]) {
    V y[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      const V a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]);
      const V c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
      y[i] = _mm256_shuffle_ps(a, c, 0x44);
      y[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
      y[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
      y[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x20);
      x[i + 4] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x31);
    }
  }
};

#include "ops/cpu/gemm/block_end-inl.h"
#include "ops/cpu/gemm/blocked-inl.h"
#include "ops/cpu/gemm/dots-inl.h"
#include "ops/cpu/gemm/thin-inl.h"

}  // namespace

template <class T, class TC>
void avx2::gemm(const GemmTask<T, TC>& task) {
  run_task<Avx2>(task);
}
template <class T>
void avx2::pack(const GemmTask<T, float>& task, float* to) {
  Blocked<Avx2, T, float>(task).pack(to);
}
template <class T>
void avx2::gemm_int8(const Int8Task<T>& task) {
  int8_dots<Avx2>(task);
}
template void avx2::gemm_int8(const Int8Task<float>&);
template void avx2::gemm_int8(const Int8Task<bfloat16>&);
template void avx2::gemm_int8(const Int8Task<float16>&);
template void avx2::gemm(const GemmTask<float, float>&);
template void avx2::gemm(const GemmTask<bfloat16, float>&);
template void avx2::gemm(const GemmTask<bfloat16, bfloat16>&);
template void avx2::gemm(const GemmTask<float16, float>&);
template void avx2::gemm(const GemmTask<float16, float16>&);
template void avx2::pack(const GemmTask<float, float>&, float*);
template void avx2::pack(const GemmTask<bfloat16, float>&, float*);
template void avx2::pack(const GemmTask<float16, float>&, float*);

}  // namespace vitrine::cpu
VITRINE_TARGET_END

#endif
