// Products whose C has few rows, as in generation, which computes one row at a time. Reading B from
// memory limits their speed, so B is read once, in place. Included like blocked-inl.h. The order of
// a sum depends only on K.
#pragma once

/// C[0 : MR, 0 : valid]: dot products of the rows of `a` with NR rows of `b`, four columns per sum.
template <class S, int MR, int NR, class T, class TC>
void dots(const GemmTask<T, TC>& t, const float* a, int64_t lda, const T* b, int64_t valid, TC* C,
          const TC* bias) {
  using V = typename S::V;
  const T* rows[NR];
  for (int j = 0; j < NR; ++j) rows[j] = b + std::min<int64_t>(j, valid - 1) * t.ldb;
  V sum[MR][NR];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j) sum[i][j] = S::zero();
  int64_t k = 0;
  for (; k + S::kWidth <= t.K; k += S::kWidth) {
    V ak[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) ak[i] = S::load(a + i * lda + k);
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const V bk = S::load(rows[j] + k);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) sum[i][j] = S::fma_float(ak[i], bk, sum[i][j]);
    }
  }
  if (k < t.K) {
    for (int j = 0; j < NR; ++j) {
      const V bk = S::load_partial(rows[j] + k, t.K - k);
      for (int i = 0; i < MR; ++i)
        sum[i][j] = S::fma_float(S::load_partial(a + i * lda + k, t.K - k), bk, sum[i][j]);
    }
  }
  for (int i = 0; i < MR; ++i) {
    alignas(16) float total[NR];
    for (int j = 0; j < NR; j += 4) S::sum4(sum[i] + j, total + j);
    for (int64_t j = 0; j < valid; ++j) {
      TC& c = C[i * t.ldc + j];
      float x = t.alpha * total[j];
      if (t.beta != 0) x += t.beta * static_cast<float>(c);
      if (bias != nullptr) x += static_cast<float>(bias[j]);
      c = static_cast<TC>(x);
    }
  }
}

/// B stored as [N, K] and few rows of A: dot products along K.
template <class S, class T, class TC>
void thin_dots(const GemmTask<T, TC>& t) {
  constexpr int kFour = 4, kColumns = 8;
  const float* a;
  int64_t lda;
  if constexpr (std::is_same_v<T, float>) a = t.A, lda = t.lda;
  if (t.ta == Trans::yes || !std::is_same_v<T, float>) {
    lda = t.K;
    float* to = scratch(Scratch::a, t.M * t.K);
    for (int64_t i = 0; i < t.M; ++i)
      for (int64_t k = 0; k < t.K; ++k)
        to[i * lda + k] = static_cast<float>(t.ta == Trans::yes ? t.A[k * t.lda + i] : t.A[i * t.lda + k]);
    a = to;
  }
  for (int64_t j = 0; j < t.N; j += kColumns) {
    const int64_t columns = std::min<int64_t>(kColumns, t.N - j);
    const T* b = t.B + j * t.ldb;
    const TC* bias = t.epilogue.bias ? t.epilogue.bias + j : nullptr;
    for (int64_t i = 0; i < t.M;) {
      TC* c = t.C + i * t.ldc + j;
      const float* row = a + i * lda;
      switch (t.M - i) {
        case 1: dots<S, 1, kColumns>(t, row, lda, b, columns, c, bias), i += 1; break;
        case 2: dots<S, 2, kColumns>(t, row, lda, b, columns, c, bias), i += 2; break;
        default:
          for (int64_t h = 0; h < columns; h += kFour) {
            const TC* bias_h = bias ? bias + h : nullptr;
            if (t.M - i == 3)
              dots<S, 3, kFour>(t, row, lda, b + h * t.ldb, std::min<int64_t>(kFour, columns - h), c + h,
                                bias_h);
            else
              dots<S, 4, kFour>(t, row, lda, b + h * t.ldb, std::min<int64_t>(kFour, columns - h), c + h,
                                bias_h);
          }
          i += std::min<int64_t>(4, t.M - i);
      }
    }
  }
  t.finish(0, t.M, 0, t.N);
}

/// One row of A, and B stored as [K, N]: C = Σ_k a[k] · B[k, :], four rows of B at a time, in
/// blocks of N whose sums stay in L1.
template <class S, class T, class TC>
void thin_rows(const GemmTask<T, TC>& t) {
  using V = typename S::V;
  constexpr int64_t kBlock = 2048;
  const int64_t step = t.ta == Trans::yes ? t.lda : 1;
  for (int64_t j = 0; j < t.N; j += kBlock) {
    const int64_t n = std::min(kBlock, t.N - j);
    float* sums = scratch(Scratch::c, kBlock);
    std::fill(sums, sums + ceil_div(n, S::kWidth) * S::kWidth, 0.0f);
    for (int64_t k = 0; k < t.K; k += 4) {
      const int64_t rows = std::min<int64_t>(4, t.K - k);
      const T* b = t.B + k * t.ldb + j;
      V ak[4];
      for (int64_t r = 0; r < rows; ++r) ak[r] = S::set(static_cast<float>(t.A[(k + r) * step]));
      int64_t c = 0;
      if (rows == 4) {
        for (; c + S::kWidth <= n; c += S::kWidth) {
          V x = S::load(sums + c);
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) x = S::fma_float(ak[r], S::load(b + r * t.ldb + c), x);
          S::store(sums + c, x);
        }
      }
      for (; c < n; c += S::kWidth) {
        V x = S::load(sums + c);
        for (int64_t r = 0; r < rows; ++r)
          x = S::fma_float(ak[r], S::load_partial(b + r * t.ldb + c, std::min<int64_t>(S::kWidth, n - c)), x);
        S::store(sums + c, x);
      }
    }
    for (int64_t c = 0; c < n; c += S::kWidth) S::store(sums + c, S::mul(S::load(sums + c), S::set(t.alpha)));
    convert_block<S>(sums, kBlock, 1, n, t.beta, t.epilogue.bias ? t.epilogue.bias + j : nullptr, t.C + j,
                     t.ldc);
  }
  t.finish(0, 1, 0, t.N);
}

/// The entry point of an instruction set.
template <class S, class T, class TC>
void run_task(const GemmTask<T, TC>& t) {
  switch (t.way) {
    case Way::blocked: return Blocked<S, T, TC>(t).run();
    case Way::dots: return thin_dots<S>(t);
    case Way::rows: return thin_rows<S>(t);
  }
}
