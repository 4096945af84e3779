// The AVX-512 vector unit in the form that the -inl.h files of the matrix product require. Included
// in the same way.
#pragma once

/// Lane i of the mask is set for i < n; n from 0 to 16.
inline __mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

struct Avx512 {
  using V = __m512;
  static constexpr int kWidth = 16, kPerUnit = 1;
  static constexpr int kTileRows = 8, kStrip = 3;
  static constexpr int64_t kDepth = kAvx512Block.depth, kColumns = kAvx512Block.columns, kRows = 64;
  static constexpr bool kFetchC = false;
  static constexpr int64_t kFewRows = 16, kFewColumns = 48;

  static V zero() { return _mm512_setzero_ps(); }
  static V set(float x) { return _mm512_set1_ps(x); }
  static V broadcast(const float* x) { return _mm512_set1_ps(*x); }
  static V add(V x, V y) { return _mm512_add_ps(x, y); }
  static V mul(V x, V y) { return _mm512_mul_ps(x, y); }
  static V fma(V x, V y, V z) { return _mm512_fmadd_ps(x, y, z); }
  static V fma_float(V x, V y, V z) { return _mm512_fmadd_ps(x, y, z); }

  static V widen(__m256i bits, bfloat16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static V widen(__m256i bits, float16) { return _mm512_cvtph_ps(bits); }
  static __m256i narrow(V x, float16) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
  /// To nearest, ties to even, in integer arithmetic, because vcvtneps2bf16 would flush subnormals.
  static __m256i narrow(V x, bfloat16) {
    const __m512i u = _mm512_castps_si512(x), upper = _mm512_srli_epi32(u, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
  }

  /// The first and the second number of each pair of bfloat16, as floats.
  static V low(V pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16)); }
  static V high(V pairs) { return _mm512_and_ps(pairs, _mm512_castsi512_ps(_mm512_set1_epi32(-0x10000))); }

  /// Numbers in 8 bits, less 128.
  static V levels(const uint8_t* p) {
    const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(x, _mm512_set1_epi32(128)));
  }

  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load_partial(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store(float* p, V x) { _mm512_storeu_ps(p, x); }
  static void store_partial(float* p, V x, int64_t n) { _mm512_mask_storeu_ps(p, first(n), x); }
  template <class T>
  static V load(const T* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), T());
  }
  template <class T>
  static V load_partial(const T* p, int64_t n) {
    return widen(_mm256_maskz_loadu_epi16(first(n), p), T());
  }
  template <class T>
  static void store_partial(T* p, V x, int64_t n) {
    _mm256_mask_storeu_epi16(p, first(n), narrow(x, T()));
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
    const V a = add(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
    const V b = add(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
    const V low = _mm512_shuffle_ps(a, b, 0x44), high = _mm512_shuffle_ps(a, b, 0xee);
    const V s = add(low, high);
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }

  /// Transposes 16 by 16 units: pairs of rows, pairs of pairs, then the 4 by 4 matrix of 128-bit
  /// blocks.
  static inline __attribute__((always_inline)) void transpose(V (&x)[16]) {
    V y[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1]));
      const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1]));
      const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3]));
      const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]));
      y[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
      y[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
      y[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
      y[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const V a = _mm512_shuffle_f32x4(y[i], y[i + 4], 0x88), b = _mm512_shuffle_f32x4(y[i], y[i + 4], 0xdd);
      const V c = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0x88);
      const V d = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0xdd);
      x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
      x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
      x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
      x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
  }
};
