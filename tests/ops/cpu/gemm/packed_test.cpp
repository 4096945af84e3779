// Products with a right operand that was packed once, against the definition in float64, on every
// instruction set that this CPU supports.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/simd/isa.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/gemm/plain.h"

using namespace vitrine;
using cpu::Trans;

namespace {

template <class T>
std::vector<T> numbers(int64_t count, uint64_t state) {
  std::vector<T> x;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x.push_back(T(static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1)));
  }
  return x;
}

template <class T>
std::vector<double> wide(const std::vector<T>& x) {
  return std::vector<double>(x.begin(), x.end());
}

/// The first [K, N] of a packed [rows, columns]. Elements beyond K are NaN, and must not be read.
template <class T>
void check_product(Trans ta, Trans tb, int64_t M, int64_t columns, int64_t rows, int64_t N, int64_t K) {
  using TC = AccumulatorOf<T>;
  const int64_t lda = (ta == Trans::yes ? M : K) + 2, ldb = (tb == Trans::yes ? rows : columns) + 1,
                ldc = N + 3;
  const std::vector<T> A = numbers<T>((ta == Trans::yes ? K : M) * lda, 1);
  std::vector<T> B = numbers<T>((tb == Trans::yes ? columns : rows) * ldb, 2);
  for (int64_t k = K; k < rows; ++k)
    for (int64_t j = 0; j < columns; ++j)
      B[static_cast<size_t>(tb == Trans::yes ? j * ldb + k : k * ldb + j)] =
          T(std::numeric_limits<float>::quiet_NaN());
  std::vector<TC> C = numbers<TC>(M * ldc, 3), before = C;
  std::vector<double> want = wide(C);
  cpu::gemm_plain(ta, tb, M, N, K, 0.5, wide(A).data(), lda, wide(B).data(), ldb, 2.0, want.data(), ldc);

  std::vector<float> memory(cpu::packed_size<T>(columns, rows));
  const auto packed = cpu::pack<T>(tb, columns, rows, B.data(), ldb, memory.data());
  cpu::multiply<T, TC>(ta, M, N, K, TC(0.5), A.data(), lda, packed, TC(2), C.data(), ldc);
  double worst = 0;
  bool kept = true;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<size_t>(i * ldc + j);
      if (j >= N) kept &= C[at] == before[at];
      const double error = j < N ? std::abs(static_cast<double>(C[at]) - want[at]) : 0;
      worst = error <= worst ? worst : error;  // NaN stays
    }
  INFO(name(isa()), ", ", name(dtype_v<T>), ", transposed ", ta == Trans::yes, " ", tb == Trans::yes, ": [",
       M, ", ", N, ", ", K, "] of [", columns, ", ", rows, "]");
  CHECK(worst <= 16 * epsilon(dtype_v<TC>) * std::sqrt(static_cast<double>(K)));
  CHECK(kept);
}

}  // namespace

TEST_CASE_TEMPLATE("a packed operand serves products with all of it, and with its first rows and columns", T,
                   float, double, bfloat16, float16) {
  for (const Isa set :
       {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::amx_emulated}) {
    if (!detail::includes(isa(), set)) continue;
    const detail::IsaScope scope(set);
    for (const Trans ta : {Trans::no, Trans::yes})
      for (const Trans tb : {Trans::no, Trans::yes}) {
        for (const int64_t columns : {1, 16, 49, 256})
          for (const int64_t rows : {1, 31, 64}) {
            check_product<T>(ta, tb, 5, columns, rows, columns, rows);
            check_product<T>(ta, tb, 33, columns, rows, (columns + 1) / 2, rows);
          }
        check_product<T>(ta, tb, 17, 100, 256, 100, 96);
        check_product<T>(ta, tb, 17, 100, 256, 70, 64);
        // Several blocks of columns, and of rows
        check_product<T>(ta, tb, 9, 1601, 70, 1601, 70);
        check_product<T>(ta, tb, 9, 1601, 70, 900, 64);
        check_product<T>(ta, tb, 9, 40, 2100, 40, 2100);
        check_product<T>(ta, tb, 9, 40, 2100, 40, 1120);
      }
  }
}

TEST_CASE("more of a packed operand than there is, or part of a step, is an error") {
  const std::vector<bfloat16> B(64 * 64), A(64 * 64);
  std::vector<float> C(64 * 64), memory(cpu::packed_size<bfloat16>(64, 64));
  const auto packed = cpu::pack<bfloat16>(Trans::no, 64, 64, B.data(), 64, memory.data());
  const auto multiply = [&](int64_t N, int64_t K) {
    cpu::multiply<bfloat16, float>(Trans::no, 64, N, K, 1, A.data(), 64, packed, 0, C.data(), 64);
  };
  CHECK_THROWS_WITH_AS(multiply(65, 64), doctest::Contains("wanted at most [64, 64]"), Error);
  CHECK_THROWS_WITH_AS(multiply(64, 65), doctest::Contains("wanted at most [64, 64]"), Error);
  if (cpu::packed_step<bfloat16>() > 1)
    CHECK_THROWS_WITH_AS(multiply(64, 63), doctest::Contains("rows in steps of"), Error);
}
