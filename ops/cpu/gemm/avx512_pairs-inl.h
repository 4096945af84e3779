// How AVX-512 reads pairs of bfloat16, for the instructions that multiply and add pairs. Included
// after avx512-inl.h, in the same way.
#pragma once

/// Units are pairs of bfloat16, neighbours in k.
struct Avx512Pairs : Avx512 {
  static constexpr int kPerUnit = 2;
  static constexpr int64_t kDepth = 2 * Avx512::kDepth;

  /// A unit is read as an integer, because rows of A are read in place as bfloat16.
  static V broadcast(const float* unit) {
    int pair;
    std::memcpy(&pair, unit, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
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
