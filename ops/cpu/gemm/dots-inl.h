// Products whose C has few rows, as in generation, which computes one row at a time. Reading B from
// memory limits their speed, so B is read once, in place. Included like blocked-inl.h. The order of
// a sum depends only on K.
#pragma once

/// Pairs of bfloat16 where no instruction multiplies them: both numbers of a pair become floats in
/// its own lane, by one operation each, which takes half the loads of widening vector by vector.
template <class S>
struct WidenedPairs : S {
  using V = typename S::V;
  static constexpr int kPerUnit = 2;

  static V load_units(const bfloat16* p) { return S::load(reinterpret_cast<const float*>(p)); }
  static V load_units_partial(const bfloat16* p, int64_t n) {
    alignas(64) bfloat16 numbers[2 * S::kWidth] = {};
    std::copy(p, p + n, numbers);
    return load_units(numbers);
  }
  static V fma(V x, V y, V z) {
    return S::fma_float(S::high(x), S::high(y), S::fma_float(S::low(x), S::low(y), z));
  }
};

/// How the dot products of an instruction set read numbers of type T.
template <class S, class T>
using Dots = std::conditional_t<std::is_same_v<T, bfloat16> && S::kPerUnit == 1, WidenedPairs<S>, S>;

/// sums[0 : MR, 0 : NR]: dot products of rows of `a` with `valid` rows of `b`. Later columns are
/// not used. The next rows of B, `ahead` numbers further, are prefetched: a row is too short for
/// the hardware to notice it.
template <class S, int MR, int NR, class TA, class T>
void dots(int64_t K, const TA* a, int64_t lda, const T* b, int64_t ldb, int64_t valid, int64_t ahead,
          float* sums, int64_t ld) {
  using V = typename S::V;
  constexpr int64_t kStep = S::kWidth * S::kPerUnit;
  const T* rows[NR];
  for (int j = 0; j < NR; ++j) rows[j] = b + std::min<int64_t>(j, valid - 1) * ldb;
  V sum[MR][NR];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j) sum[i][j] = S::zero();
  int64_t k = 0;
  for (; k + kStep <= K; k += kStep) {
    V ak[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) ak[i] = S::load_units(a + i * lda + k);
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const V bk = S::load_units(rows[j] + k);
      __builtin_prefetch(rows[j] + k + ahead);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) sum[i][j] = S::fma(ak[i], bk, sum[i][j]);
    }
  }
  if (k < K) {
    for (int j = 0; j < NR; ++j) {
      const V bk = S::load_units_partial(rows[j] + k, K - k);
      for (int i = 0; i < MR; ++i)
        sum[i][j] = S::fma(S::load_units_partial(a + i * lda + k, K - k), bk, sum[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; j += 4) S::sum4(sum[i] + j, sums + i * ld + j);
}

/// The same for any number of rows and `columns`, at most eight.
template <class S, class TA, class T>
void dots_of_rows(int64_t M, int64_t K, const TA* a, int64_t lda, const T* b, int64_t ldb, int64_t columns,
                  int64_t ahead, float* sums, int64_t ld) {
  constexpr int64_t kFour = 4;
  int64_t i = 0;
  for (; i + 3 <= M; i += kFour) {
    for (int64_t j = 0; j < columns; j += kFour) {
      const int64_t valid = std::min(kFour, columns - j);
      const auto of = i + 3 == M ? &dots<S, 3, kFour, TA, T> : &dots<S, 4, kFour, TA, T>;
      of(K, a + i * lda, lda, b + j * ldb, ldb, valid, ahead, sums + i * ld + j, ld);
    }
  }
  if (i >= M) return;
  const auto of = i + 1 == M ? &dots<S, 1, 8, TA, T> : &dots<S, 2, 8, TA, T>;
  of(K, a + i * lda, lda, b, ldb, columns, ahead, sums + i * ld, ld);
}

/// The rows of A, one after another: pairs of bfloat16 stay as they are, and other 16-bit numbers
/// become floats.
template <class S, class T, class TC>
struct RowsOfA {
  using Number = std::conditional_t<S::kPerUnit == 1, float, T>;
  const Number* data;
  int64_t ld;

  explicit RowsOfA(const GemmTask<T, TC>& t) {
    if constexpr (std::is_same_v<T, Number>) {
      data = t.A, ld = t.lda;
      if (t.ta == Trans::no) return;
    }
    ld = t.K;
    auto* const to = reinterpret_cast<Number*>(scratch(Scratch::a, t.M * t.K));
    for (int64_t i = 0; i < t.M; ++i)
      for (int64_t k = 0; k < t.K; ++k)
        to[i * ld + k] = static_cast<Number>(t.ta == Trans::yes ? t.A[k * t.lda + i] : t.A[i * t.lda + k]);
    data = to;
  }
};

/// B stored as [N, K] and few rows of A: dot products along K, in blocks of N whose sums stay in
/// L1.
template <class S, class T, class TC>
void thin_dots(const GemmTask<T, TC>& t) {
  constexpr int64_t kBlock = 256, kColumns = 8;
  const RowsOfA<S, T, TC> a(t);
  float* const sums = scratch(Scratch::c, t.M * kBlock);
  for (int64_t j = 0; j < t.N; j += kBlock) {
    const int64_t n = std::min(kBlock, t.N - j);
    for (int64_t c = 0; c < n; c += kColumns) {
      const int64_t next = j + c + kColumns, ahead = next + kColumns <= t.N ? kColumns * t.ldb : 0;
      dots_of_rows<S>(t.M, t.K, a.data, a.ld, t.B + (j + c) * t.ldb, t.ldb, std::min(kColumns, n - c), ahead,
                      sums + c, kBlock);
    }
    convert_block<S>(t.alpha, sums, kBlock, t.M, n, t.beta, t.epilogue.bias ? t.epilogue.bias + j : nullptr,
                     t.C + j, t.ldc);
  }
  t.finish(0, t.M, 0, t.N);
}

/// Numbers in 8 bits around 128, which become floats in a register.
template <class S>
struct Int8Levels : S {
  using V = typename S::V;
  using S::load_units, S::load_units_partial;

  static V load_units(const uint8_t* p) { return S::levels(p); }
  static V load_units_partial(const uint8_t* p, int64_t n) {
    alignas(16) uint8_t some[S::kWidth] = {};
    std::copy(p, p + n, some);
    return S::levels(some);
  }
  static V fma(V x, V y, V z) { return S::fma_float(x, y, z); }
};

/// C = scale · A · (levels − 128)ᵀ + bias. As A has floats, its 16-bit numbers are widened once.
template <class S, class T>
void int8_dots(const Int8Task<T>& t) {
  constexpr int64_t kBlock = 256, kColumns = 8;
  const float* a;
  if constexpr (std::is_same_v<T, float>) {
    a = t.A;
  } else {
    float* const wide = scratch(Scratch::a, t.M * t.K);
    for (int64_t i = 0; i < t.M * t.K; ++i) wide[i] = static_cast<float>(t.A[i]);
    a = wide;
  }
  float* const sums = scratch(Scratch::c, t.M * kBlock);
  for (int64_t j = 0; j < t.N; j += kBlock) {
    const int64_t n = std::min(kBlock, t.N - j);
    for (int64_t c = 0; c < n; c += kColumns) {
      const int64_t next = j + c + kColumns, ahead = next + kColumns <= t.N ? kColumns * t.K : 0;
      dots_of_rows<Int8Levels<S>>(t.M, t.K, a, t.K, t.levels + (j + c) * t.K, t.K, std::min(kColumns, n - c),
                                  ahead, sums + c, kBlock);
    }
    for (int64_t i = 0; i < t.M; ++i)
      for (int64_t c = 0; c < n; ++c) sums[i * kBlock + c] *= t.scale[j + c];
    convert_block<S>(1, sums, kBlock, t.M, n, 0, t.bias ? t.bias + j : nullptr, t.C + j, t.ldc);
  }
}
