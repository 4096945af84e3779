// The packed matrix product for AVX-512: 8 by 48 tiles, 24 of the 32 registers hold sums. 16-bit
// operands are converted to float while they are packed.
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
#include <type_traits>
#include <utility>

VITRINE_TARGET_BEGIN("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c")
namespace vitrine::cpu {
namespace {

#include "ops/cpu/gemm/avx512-inl.h"
#include "ops/cpu/gemm/block_end-inl.h"
#include "ops/cpu/gemm/blocked-inl.h"
#include "ops/cpu/gemm/dots-inl.h"
#include "ops/cpu/gemm/thin-inl.h"

}  // namespace

template <class T, class TC>
void avx512::gemm(const GemmTask<T, TC>& task) {
  run_task<Avx512>(task);
}
template <class T>
void avx512::pack(const GemmTask<T, float>& task, float* to) {
  Blocked<Avx512, T, float>(task).pack(to);
}
template <class T>
void avx512::gemm_int8(const Int8Task<T>& task) {
  int8_dots<Avx512>(task);
}
template void avx512::gemm_int8(const Int8Task<float>&);
template void avx512::gemm_int8(const Int8Task<bfloat16>&);
template void avx512::gemm_int8(const Int8Task<float16>&);
template void avx512::gemm(const GemmTask<float, float>&);
template void avx512::gemm(const GemmTask<bfloat16, float>&);
template void avx512::gemm(const GemmTask<bfloat16, bfloat16>&);
template void avx512::gemm(const GemmTask<float16, float>&);
template void avx512::gemm(const GemmTask<float16, float16>&);
template void avx512::pack(const GemmTask<float, float>&, float*);
template void avx512::pack(const GemmTask<bfloat16, float>&, float*);
template void avx512::pack(const GemmTask<float16, float>&, float*);

}  // namespace vitrine::cpu
VITRINE_TARGET_END

#endif
