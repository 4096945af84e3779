// The definition of the matrix product. The tuned kernels of ops/cpu/gemm/gemm.h are tested against
// it, and it runs for scalars that have no tuned kernel (Dual, integers).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "ops/cpu/gemm/gemm.h"

namespace vitrine::cpu {

/// C[i, j] = alpha · Σ_k op(A)[i, k] · op(B)[k, j] + beta · C[i, j], summed in the wide type of TC.
template <class T, class TC>
void gemm_plain(Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, AccumulatorOf<TC> alpha, const T* A,
                int64_t lda, const T* B, int64_t ldb, AccumulatorOf<TC> beta, TC* C, int64_t ldc) {
  // Integers wrap around, as in NumPy.
  using Sum = std::conditional_t<std::is_integral_v<TC>, uint64_t, AccumulatorOf<TC>>;
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      Sum sum = 0;
      for (int64_t k = 0; k < K; ++k) {
        const Sum a = static_cast<Sum>(ta == Trans::yes ? A[k * lda + i] : A[i * lda + k]);
        const Sum b = static_cast<Sum>(tb == Trans::yes ? B[j * ldb + k] : B[k * ldb + j]);
        sum += a * b;
      }
      Sum c = static_cast<Sum>(alpha) * sum;
      if (beta != AccumulatorOf<TC>(0)) c += static_cast<Sum>(beta) * static_cast<Sum>(C[i * ldc + j]);
      C[i * ldc + j] = static_cast<TC>(c);
    }
  }
}

}  // namespace vitrine::cpu
