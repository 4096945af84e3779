// The end of a product whose sums were kept in float. Included like blocked-inl.h, before it.
#pragma once

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// C = round(alpha · sums + beta · C + bias) for a C whose sums were kept in float. The rows of
/// `sums` are `ld` floats apart, and have whole vectors.
template <class S, class TC>
void convert_block(float alpha, const float* sums, int64_t ld, int64_t rows, int64_t columns, float beta,
                   const TC* bias, TC* C, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; j += S::kWidth) {
      const int64_t valid = std::min<int64_t>(S::kWidth, columns - j);
      auto x = S::mul(S::set(alpha), S::load(sums + i * ld + j));
      TC* c = C + i * ldc + j;
      if (beta != 0) x = S::fma_float(S::set(beta), S::load_partial(c, valid), x);
      if (bias != nullptr) x = S::add(x, S::load_partial(bias + j, valid));
      S::store_partial(c, x, valid);
    }
  }
}
