// The packed product of bfloat16 operands by vdpbf16ps, which multiplies pairs and adds them in
// float32.
#include "ops/cpu/gemm/task.h"

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// False alarms inside immintrin.h of GCC 12.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

VITRINE_TARGET_BEGIN("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,avx512bf16")
namespace vitrine::cpu {
namespace {

#include "ops/cpu/gemm/avx512-inl.h"
#include "ops/cpu/gemm/avx512_pairs-inl.h"

/// vdpbf16ps rounds after each of its two additions and treats subnormals as 0.
struct Avx512Dots : Avx512Pairs {
  static V fma(V x, V y, V z) {
    return _mm512_dpbf16_ps(z, (__m512bh)_mm512_castps_si512(x), (__m512bh)_mm512_castps_si512(y));
  }
};

#include "ops/cpu/gemm/block_end-inl.h"
#include "ops/cpu/gemm/blocked-inl.h"
#include "ops/cpu/gemm/dots-inl.h"
#include "ops/cpu/gemm/thin-inl.h"

}  // namespace

template <class T, class TC>
void avx512_bf16::gemm(const GemmTask<T, TC>& task) {
  run_task<Avx512Dots>(task);
}
template <class T>
void avx512_bf16::pack(const GemmTask<T, float>& task, float* to) {
  Blocked<Avx512Dots, T, float>(task).pack(to);
}
template void avx512_bf16::gemm(const GemmTask<bfloat16, float>&);
template void avx512_bf16::gemm(const GemmTask<bfloat16, bfloat16>&);
template void avx512_bf16::pack(const GemmTask<bfloat16, float>&, float*);

}  // namespace vitrine::cpu
VITRINE_TARGET_END

#endif
