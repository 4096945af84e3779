// The tile registers of AMX, twice: the real ones, and an emulation by AVX-512 for tests. Included
// like avx512-inl.h and after it.
//
// There are 8 tiles. Here each of them has its full size: 16 rows of 64 bytes, which are 16 floats
// or 16 pairs of bfloat16. One instruction, tdpbf16ps, multiplies two tiles:
//
//   C[m, n] += Σ_k A[m, k] · B[k, n]     C [16, 16] floats; A [16, 16] and B [16, 16] pairs
//
// A pair times a pair is the sum of two products, so K counts 32 numbers. A row of A has pairs that
// are neighbours in K. A row of B has, for one such pair of rows of B, the pairs of 16 columns.
//
// Both types have the same functions; the numbers of the tiles are template arguments. The tiles
// belong to the thread that made the object, for as long as it lives.
#pragma once

constexpr int kTileRows = 16, kPairs = 16, kTileK = 2 * kPairs;
constexpr int kTile = kTileRows * kPairs;  // in units of 4 bytes

/// The operand of ldtilecfg (Intel's manual, volume 2). It has room for 16 tiles; 8 exist.
struct TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

/// The instructions are inline assembly. GCC 12 has intrinsics for them, but it may drop the stores
/// that fill the configuration, because it does not see that _tile_loadconfig reads them.
class AmxTiles {
 public:
  /// Gives every tile its full size and sets it to 0.
  AmxTiles() { asm volatile("ldtilecfg %0" : : "m"(kConfiguration)); }
  /// After this the system has no tiles to save when it changes threads.
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int T>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  /// Rows follow each other in memory, here and in store().
  template <int T>
  void load(const float* from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(kRowBytes), "i"(T) : "memory");
  }
  template <int T>
  void store(float* to) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(kRowBytes), "i"(T) : "memory");
  }
  /// Tile C += tile A · tile B.
  template <int C, int A, int B>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }

 private:
  static constexpr int64_t kRowBytes = 64;
  static constexpr TileConfiguration kConfiguration = {};
};

/// Adds in the order that Intel's manual gives for tdpbf16ps (volume 2). For each element of C, two
/// sums start at 0: one over the first numbers of the pairs and one over the second numbers. Each
/// step is a fused multiply-add. Then the two sums are added, and their sum is added to C.
/// Subnormal operands and results are 0, and the rounding mode of the program does not matter. In
/// one detail the emulation differs: a result that is rounded up to the least normal number stays.
class EmulatedTiles {
  using V = __m512;

 public:
  template <int T>
  void zero() {
    for (V& row : tiles_[T]) row = _mm512_setzero_ps();
  }
  template <int T>
  void load(const float* from) {
    for (int r = 0; r < kTileRows; ++r) tiles_[T][r] = _mm512_loadu_ps(from + r * kPairs);
  }
  template <int T>
  void store(float* to) const {
    for (int r = 0; r < kTileRows; ++r) _mm512_storeu_ps(to + r * kPairs, tiles_[T][r]);
  }
  template <int C, int A, int B>
  void multiply() {
    for (int m = 0; m < kTileRows; ++m) {
      alignas(64) uint32_t a[kPairs];
      _mm512_store_ps(a, tiles_[A][m]);
      V sum_0 = _mm512_setzero_ps(), sum_1 = _mm512_setzero_ps();
      for (int k = 0; k < kPairs; ++k) {
        const __m512i pair = _mm512_set1_epi32(static_cast<int>(a[k]));
        const __m512i b = _mm512_castps_si512(tiles_[B][k]);
        sum_0 = fma(number_0(pair), number_0(b), sum_0);
        sum_1 = fma(number_1(pair), number_1(b), sum_1);
      }
      tiles_[C][m] = add(flushed(tiles_[C][m]), add(sum_0, sum_1));
    }
  }

 private:
  static constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

  static V flushed(V x) {
    constexpr int kSubnormal = 0x20;
    const V zero_of_same_sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
    return _mm512_mask_mov_ps(x, _mm512_fpclass_ps_mask(x, kSubnormal), zero_of_same_sign);
  }
  static V fma(V x, V y, V z) { return flushed(_mm512_fmadd_round_ps(x, y, z, kToNearest)); }
  static V add(V x, V y) { return flushed(_mm512_add_round_ps(x, y, kToNearest)); }
  /// A bfloat16 is the upper half of a float. The first number of a pair is the lower half.
  static V number_0(__m512i pairs) { return flushed(_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))); }
  static V number_1(__m512i pairs) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    return flushed(_mm512_castsi512_ps(_mm512_and_si512(pairs, upper)));
  }

  V tiles_[8][kTileRows];
};
