// Hopper's copy engine (TMA; PTX ISA, "cp.async.bulk.tensor"): one thread requests a whole tile of
// a matrix, and an mbarrier is complete when its bytes have arrived. No thread computes addresses,
// and elements outside the matrix arrive as zeros.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "cuda/instructions/mbarrier.h"

#if !VITRINE_CUDA_EMULATED
#include <cuda.h>
#endif

namespace vitrine::cuda {

/// Tiles are boxes of kBox × kBox elements of 16 bits: kBox lines of 128 bytes in shared memory,
/// from a multiple of 1024 bytes on. The 16-byte chunks of a line are permuted: the chunk's index
/// is combined by exclusive or with the line's number modulo 8 (the swizzle of 128 bytes). So the
/// same chunk of eight lines is in different banks.
inline constexpr int kBox = 64, kBoxBytes = kBox * 128;

/// The layout of a matrix in memory, for the copy engine. A kernel takes it as a `const
/// __grid_constant__ TensorMap`.
#if VITRINE_CUDA_EMULATED
using TensorMap = emulator::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

/// `lines` lines of `length` elements of 16 bits, `stride` elements apart. Both data and stride are
/// aligned to 16 bytes.
TensorMap tensor_map(DType dtype, const void* data, int64_t length, int64_t lines, int64_t stride);
/// The same for the matrices [T, D] of a tensor [B, H, T, D]. Requires has_tensor_map.
TensorMap tensor_map(const Tensor& heads);
/// Whether a tensor can have a map: elements of 16 bits that are neighbours along D, data and
/// strides aligned to 16 bytes, no axis expanded or empty.
bool has_tensor_map(const Tensor& heads);

/// Copies the box that begins at element `at` of line `line`. When it has arrived, the barrier
/// counts kBoxBytes.
__device__ void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line, Mbarrier& barrier);
/// The same for head h of batch element b of a tensor.
__device__ void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line, int h, int b,
                         Mbarrier& barrier);

#if VITRINE_CUDA_EMULATED
VITRINE_UNTRACED inline void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line,
                                      Mbarrier& barrier) {
  emulator::load_box({map, static_cast<char*>(shared), at, line, &barrier.state},
                     __builtin_return_address(0));
}
VITRINE_UNTRACED inline void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line, int h,
                                      int b, Mbarrier& barrier) {
  emulator::load_box({map.matrix(h, b), static_cast<char*>(shared), at, line, &barrier.state},
                     __builtin_return_address(0));
}
#else
__device__ inline void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line,
                                Mbarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];\n" ::"r"(shared_address(shared)),
      "l"(&map), "r"(static_cast<int>(at)), "r"(static_cast<int>(line)), "r"(shared_address(&barrier))
      : "memory");
}
__device__ inline void load_box(void* shared, const TensorMap& map, int64_t at, int64_t line, int h, int b,
                                Mbarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4, %5}], [%6];\n" ::"r"(shared_address(shared)),
      "l"(&map), "r"(static_cast<int>(at)), "r"(static_cast<int>(line)), "r"(h), "r"(b),
      "r"(shared_address(&barrier))
      : "memory");
}
#endif

}  // namespace vitrine::cuda
