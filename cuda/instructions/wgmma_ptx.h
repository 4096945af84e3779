// The PTX of `wgmma` (PTX ISA, "wgmma.mma_async"), which names each register. For
// cuda/instructions/wgmma.h.
#pragma once

#include <type_traits>

#include "core/float16.h"
#include "cuda/instructions/mma.h"

namespace vitrine::cuda {

// clang-format off
#define VITRINE_SUMS4(i) "+f"(s[i]), "+f"(s[(i) + 1]), "+f"(s[(i) + 2]), "+f"(s[(i) + 3])
#define VITRINE_SUMS16(i) VITRINE_SUMS4(i), VITRINE_SUMS4((i) + 4), VITRINE_SUMS4((i) + 8), VITRINE_SUMS4((i) + 12)
#define VITRINE_SUMS32(i) VITRINE_SUMS16(i), VITRINE_SUMS16((i) + 16)
#define VITRINE_SUMS64(i) VITRINE_SUMS32(i), VITRINE_SUMS32((i) + 32)
#define VITRINE_SUMS128(i) VITRINE_SUMS64(i), VITRINE_SUMS64((i) + 64)
#define VITRINE_NAMES32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VITRINE_NAMES64 VITRINE_NAMES32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VITRINE_NAMES128 VITRINE_NAMES64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// `sums` registers per thread for `columns` columns. `operands` names the operands after the sums:
// x, y and `add`, then 1, 1 (no minus sign for x and y), and whether x and y are transposed (lines
// across k).
#define VITRINE_WGMMA(sums, columns, type, flag, operands, ...)                                            \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " flag ", 0;\n"                                       \
      "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" VITRINE_NAMES##sums "}, " \
      operands ";\n}\n" : VITRINE_SUMS##sums(0) : "r"(static_cast<int>(add_sums)), __VA_ARGS__)
#define VITRINE_WGMMA_SHARED(sums, columns, type, flag, x, y, x_across, y_across) \
  VITRINE_WGMMA(sums, columns, type, flag, x ", " y ", add, 1, 1, " x_across ", " y_across,   \
                "l"(x_descriptor), "l"(y_descriptor), "n"(!kXAlongK), "n"(!kYAlongK))
#define VITRINE_WGMMA_REGISTERS(sums, columns, type, flag, x, y, y_across) \
  VITRINE_WGMMA(sums, columns, type, flag, "{" x "}, " y ", add, 1, 1, " y_across, \
                "r"(x_words.quarter[0]), "r"(x_words.quarter[1]), "r"(x_words.quarter[2]), "r"(x_words.quarter[3]), \
                "l"(y_descriptor), "n"(!kYAlongK))

template <class T, bool kXAlongK, bool kYAlongK>
__device__ void wgmma(float (&s)[32], uint64_t x_descriptor, uint64_t y_descriptor, bool add_sums) {
  if constexpr (std::is_same_v<T, bfloat16>) VITRINE_WGMMA_SHARED(32, 64, "bf16", "%32", "%33", "%34", "%35", "%36");
  else VITRINE_WGMMA_SHARED(32, 64, "f16", "%32", "%33", "%34", "%35", "%36");
}

template <class T, bool kXAlongK, bool kYAlongK>
__device__ void wgmma(float (&s)[64], uint64_t x_descriptor, uint64_t y_descriptor, bool add_sums) {
  if constexpr (std::is_same_v<T, bfloat16>) VITRINE_WGMMA_SHARED(64, 128, "bf16", "%64", "%65", "%66", "%67", "%68");
  else VITRINE_WGMMA_SHARED(64, 128, "f16", "%64", "%65", "%66", "%67", "%68");
}

template <class T, bool kXAlongK, bool kYAlongK>
__device__ void wgmma(float (&s)[128], uint64_t x_descriptor, uint64_t y_descriptor, bool add_sums) {
  if constexpr (std::is_same_v<T, bfloat16>) VITRINE_WGMMA_SHARED(128, 256, "bf16", "%128", "%129", "%130", "%131", "%132");
  else VITRINE_WGMMA_SHARED(128, 256, "f16", "%128", "%129", "%130", "%131", "%132");
}

template <class T, bool kYAlongK>
__device__ void wgmma(float (&s)[32], const Fragment& x_words, uint64_t y_descriptor, bool add_sums) {
  if constexpr (std::is_same_v<T, bfloat16>) VITRINE_WGMMA_REGISTERS(32, 64, "bf16", "%32", "%33, %34, %35, %36", "%37", "%38");
  else VITRINE_WGMMA_REGISTERS(32, 64, "f16", "%32", "%33, %34, %35, %36", "%37", "%38");
}

template <class T, bool kYAlongK>
__device__ void wgmma(float (&s)[64], const Fragment& x_words, uint64_t y_descriptor, bool add_sums) {
  if constexpr (std::is_same_v<T, bfloat16>) VITRINE_WGMMA_REGISTERS(64, 128, "bf16", "%64", "%65, %66, %67, %68", "%69", "%70");
  else VITRINE_WGMMA_REGISTERS(64, 128, "f16", "%64", "%65, %66, %67, %68", "%69", "%70");
}
// clang-format on

#undef VITRINE_WGMMA_REGISTERS
#undef VITRINE_WGMMA_SHARED
#undef VITRINE_WGMMA
#undef VITRINE_NAMES128
#undef VITRINE_NAMES64
#undef VITRINE_NAMES32
#undef VITRINE_SUMS128
#undef VITRINE_SUMS64
#undef VITRINE_SUMS32
#undef VITRINE_SUMS16
#undef VITRINE_SUMS4

}  // namespace vitrine::cuda
