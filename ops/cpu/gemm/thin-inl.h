// Products with one row of C, and the entry point of an instruction set. Included like
// blocked-inl.h, after dots-inl.h.
#pragma once

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
    convert_block<S>(t.alpha, sums, kBlock, 1, n, t.beta, t.epilogue.bias ? t.epilogue.bias + j : nullptr,
                     t.C + j, t.ldc);
  }
  t.finish(0, 1, 0, t.N);
}

/// The entry point of an instruction set.
template <class S, class T, class TC>
void run_task(const GemmTask<T, TC>& t) {
  switch (t.way) {
    case Way::blocked: return Blocked<S, T, TC>(t).run();
    case Way::dots: return thin_dots<Dots<S, T>>(t);
    case Way::rows: return thin_rows<S>(t);
  }
}
