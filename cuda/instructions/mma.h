// The tensor cores' instructions (from compute capability 8.0 on): the 32 lanes of a warp multiply
// small matrices together. Each lane holds a few elements of each matrix, its fragment. Below, g =
// lane / 4 and t = lane % 4.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/float16.h"
#include "cuda/launch.h"
#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/mma.h"
#endif

namespace vitrine::cuda {

/// A lane's part of 16 × 16 elements of 16 bits: elements (g, 2t) and (g, 2t + 1) of each 8 × 8
/// quarter. The quarters are in column-major order; they begin at (0, 0), (8, 0), (0, 8), (8, 8).
struct Fragment {
  uint32_t quarter[4];
};

/// ldmatrix: each lane passes the address of 8 elements, a row of a quarter (lanes 0 to 7 the rows
/// of the first quarter, and so on). With `kTransposed` the addresses are columns of the quarters.
template <bool kTransposed>
__device__ Fragment load_matrices(const void* row);

/// mma.m16n8k16: sum [16, 8] += a [16, 16] · b [16, 8] with float32 sums. T is bfloat16 or float16.
/// A lane holds elements (2t, g), (2t + 1, g) of b in b0, and (2t + 8, g), (2t + 9, g) in b1. Its
/// elements of the sum are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
template <class T>
__device__ void multiply_accumulate(float (&sum)[4], const Fragment& a, uint32_t b0, uint32_t b1);

#if VITRINE_CUDA_EMULATED
template <bool kTransposed>
VITRINE_UNTRACED Fragment load_matrices(const void* row) {
  emulator::ThreadBlock& block = emulator::ThreadBlock::current();
  const unsigned g = block.lane() / 4, t = block.lane() % 4;
  check(reinterpret_cast<uintptr_t>(row) % 16 == 0, "load_matrices: an address that is no multiple of 16");
  emulator::note_access(row, 16, emulator::Access::read, __builtin_return_address(0), 2);
  const uint64_t* const rows =
      block.exchange(0xffffffffu, reinterpret_cast<uint64_t>(row), {__FILE__, __LINE__});
  const auto element = [&](unsigned quarter, unsigned line, unsigned at) VITRINE_UNTRACED {
    uint16_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(rows[8 * quarter + line]) + 2 * at, 2);
    return uint32_t{value};
  };
  Fragment f;
  for (unsigned q = 0; q < 4; ++q) {
    const uint32_t first = kTransposed ? element(q, 2 * t, g) : element(q, g, 2 * t);
    const uint32_t second = kTransposed ? element(q, 2 * t + 1, g) : element(q, g, 2 * t + 1);
    f.quarter[q] = first | second << 16;
  }
  return f;
}

template <class T>
VITRINE_UNTRACED void multiply_accumulate(float (&sum)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  emulator::ThreadBlock& block = emulator::ThreadBlock::current();
  const unsigned g = block.lane() / 4, t = block.lane() % 4;
  if (block.lane() == 0) emulator::note_matrix_products(1);
  const auto two = [](uint32_t low, uint32_t high) VITRINE_UNTRACED { return low | uint64_t{high} << 32; };
  const auto all = [&](uint64_t mine) VITRINE_UNTRACED {
    return block.exchange(0xffffffffu, mine, {__FILE__, __LINE__});
  };
  // Row g of a is in lanes 4g to 4g + 3, and column j of b is in lanes 4j to 4j + 3. First k from 0
  // to 7, then from 8 to 15.
  emulator::MmaOperands x;
  for (unsigned half = 0; half < 2; ++half) {
    const uint64_t* const lanes = all(two(a.quarter[2 * half], a.quarter[2 * half + 1]));
    std::memcpy(x.a[half], lanes + 4 * g, sizeof x.a[half]);
  }
  std::memcpy(x.b, all(two(b0, b1)) + 8 * t, sizeof x.b);
  emulator::multiply_accumulate<T>(sum, x);
}
#else
template <bool kTransposed>
__device__ Fragment load_matrices(const void* row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  Fragment f;
  uint32_t(&q)[4] = f.quarter;
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3])
                 : "r"(from)
                 : "memory");
  }
  return f;
}

template <class T>
__device__ void multiply_accumulate(float (&sum)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  const uint32_t(&q)[4] = a.quarter;
#define VITRINE_MMA(type)                                                               \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                   \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                 \
               : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, bfloat16>) {
    VITRINE_MMA("bf16");
  } else {
    VITRINE_MMA("f16");
  }
#undef VITRINE_MMA
}
#endif

}  // namespace vitrine::cuda
