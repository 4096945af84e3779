// The packed product of bfloat16 operands by the tiles of AMX: tdpbf16ps multiplies two tiles of
// pairs and adds in float32. The same code runs with emulated tiles, so that tests need no CPU with
// AMX.
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

VITRINE_TARGET_BEGIN("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c")
namespace vitrine::cpu {
namespace {

#include "ops/cpu/gemm/amx_tiles-inl.h"
#include "ops/cpu/gemm/avx512-inl.h"
#include "ops/cpu/gemm/avx512_pairs-inl.h"
#include "ops/cpu/gemm/block_end-inl.h"
#include "ops/cpu/gemm/blocked-inl.h"
// After the headers that it uses
#include "ops/cpu/gemm/amx-inl.h"

/// Tiles are for blocks. Few rows are limited by the reading of B, and AVX-512 reads as fast.
template <class Tiles, class TC>
void run_on_tiles(const GemmTask<bfloat16, TC>& task) {
  if (task.way != Way::blocked) return avx512::gemm(task);
  TileProduct<Tiles, TC>(task).run();
}

}  // namespace

template <class T, class TC>
void amx::gemm(const GemmTask<T, TC>& task) {
  run_on_tiles<AmxTiles>(task);
}
template void amx::gemm(const GemmTask<bfloat16, float>&);
template void amx::gemm(const GemmTask<bfloat16, bfloat16>&);

/// Packing takes no tiles, so both kinds share it.
template <class T>
void amx::pack(const GemmTask<T, float>& task, float* to) {
  TileProduct<EmulatedTiles, float>(task).pack(to);
}
template void amx::pack(const GemmTask<bfloat16, float>&, float*);

template <class T, class TC>
void amx_emulated::gemm(const GemmTask<T, TC>& task) {
  run_on_tiles<EmulatedTiles>(task);
}
template void amx_emulated::gemm(const GemmTask<bfloat16, float>&);
template void amx_emulated::gemm(const GemmTask<bfloat16, bfloat16>&);

}  // namespace vitrine::cpu
VITRINE_TARGET_END

#endif
