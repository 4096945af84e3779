// Hopper's tensor cores (wgmma, on compute capability 9.0 alone: sm_90a; PTX ISA, "wgmma.mma_async"): the 128 threads of a
// warpgroup multiply matrices that lie in shared memory, and go on with something else meanwhile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/float16.h"
#include "cuda/instructions/tma.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/warpgroup.h"
#endif

// Defined where these instructions can be compiled.
#if VITRINE_CUDA_EMULATED || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VITRINE_HAS_WGMMA 1
#endif

namespace vitrine::cuda {

/// setmaxnreg: from here on the warpgroup has kCount registers a thread. All of its threads call it; who takes more waits until
/// others have given enough.
template <int kCount>
__device__ void give_registers();
template <int kCount>
__device__ void take_registers();

/// What wgmma wants to know of a matrix that load_box has put into shared memory (PTX ISA, "Matrix Descriptor Format"): its
/// begin in bits 0 to 13, the leading dimension's offset in bits 16 to 29 and the stride dimension's in bits 32 to 45, all
/// in units of 16 bytes, and 1 in bits 62 and 63, the swizzle of 128 bytes. Which offset is which ("Strides"): where lines run
/// along k, the next 8 lines begin 1024 bytes further, and the leading offset is not used (1 by convention); where they run
/// across, the next 8 lines, of k, begin 1024 bytes further, and the next 64 elements across in the next box.
template <bool kAlongK>
__device__ uint64_t matrix_descriptor(const void* begin) {
  constexpr uint64_t kLeading = kAlongK ? 16 : kBoxBytes, kStride = 8 * 128, kSwizzle128 = 1;
  return (shared_address(begin) >> 4 & 0x3FFF) | kLeading >> 4 << 16 | kStride >> 4 << 32 | kSwizzle128 << 62;
}

/// A thread's share of a warpgroup's sums of 64 × 256 ("Register Fragments"): thread t has in sums[4·j + e] element
/// (16·(t / 32) + t % 32 / 4 + e / 2 · 8, 8·j + t % 4 · 2 + e % 2).
inline constexpr int kSums = 128;

/// The products of a warpgroup, which wait in groups as AsyncCopies do. From begin() to finish() the sums belong to the tensor
/// cores.
///
///   products.begin(sums);                                     // all 0
///   products.fence();
///   products.multiply_accumulate<T, true, true>(sums, x, y);  // as often as wanted
///   products.commit();                                        // a group
///   products.wait<1>();                                       // all groups but the last one are done with x and y
///   products.finish(sums);                                    // all are done
class WarpgroupProducts {
 public:
  __device__ void begin(float (&sums)[kSums]);
  /// Before the first product, and those that follow a wait.
  __device__ void fence();
  /// sums [64, 256] += x [64, 16] · y [16, 256], both given by descriptors. T is bfloat16 or float16.
  template <class T, bool kXAlongK, bool kYAlongK>
  __device__ void multiply_accumulate(float (&sums)[kSums], uint64_t x, uint64_t y);
  __device__ void commit();
  template <int kOpen>
  __device__ void wait();
  __device__ void finish(float (&sums)[kSums]);

#if VITRINE_CUDA_EMULATED
 private:
  emulator::WarpgroupProducts twin_;
#endif
};

#if VITRINE_CUDA_EMULATED
template <int kCount>
void give_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
}
template <int kCount>
void take_registers() {
  give_registers<kCount>();
}

VITRINE_UNTRACED inline void WarpgroupProducts::begin(float (&sums)[kSums]) { twin_.begin(sums); }
VITRINE_UNTRACED inline void WarpgroupProducts::fence() {}
template <class T, bool kXAlongK, bool kYAlongK>
VITRINE_UNTRACED void WarpgroupProducts::multiply_accumulate(float (&)[kSums], uint64_t x, uint64_t y) {
  twin_.add({x, y, kXAlongK, kYAlongK, [](uint16_t bits) VITRINE_UNTRACED {
               T value;
               value.bits = bits;
               return static_cast<float>(value);
             }});
}
VITRINE_UNTRACED inline void WarpgroupProducts::commit() { twin_.commit(); }
template <int kOpen>
VITRINE_UNTRACED void WarpgroupProducts::wait() {
  twin_.wait(kOpen, __builtin_return_address(0));
}
VITRINE_UNTRACED inline void WarpgroupProducts::finish(float (&sums)[kSums]) {
  twin_.wait(0, __builtin_return_address(0));
  twin_.finish(sums);
}
#else
template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

/// The compiler, which does not know what happens behind its back, must neither set nor read the sums across this point.
__device__ inline void pin(float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

__device__ inline void WarpgroupProducts::begin(float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 0;
  pin(sums);
}
__device__ inline void WarpgroupProducts::fence() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ inline void WarpgroupProducts::commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int kOpen>
__device__ void WarpgroupProducts::wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kOpen) : "memory");
}
__device__ inline void WarpgroupProducts::finish(float (&sums)[kSums]) {
  wait<0>();
  pin(sums);
}

// The last five operands: add to the sums, no minus sign for x or y, and whether x and y lie across.
#define VITRINE_SUMS4(i) "+f"(s[i]), "+f"(s[(i) + 1]), "+f"(s[(i) + 2]), "+f"(s[(i) + 3])
#define VITRINE_SUMS16(i) \
  VITRINE_SUMS4(i), VITRINE_SUMS4((i) + 4), VITRINE_SUMS4((i) + 8), VITRINE_SUMS4((i) + 12)
#define VITRINE_SUMS64(i) \
  VITRINE_SUMS16(i), VITRINE_SUMS16((i) + 16), VITRINE_SUMS16((i) + 32), VITRINE_SUMS16((i) + 48)
// clang-format off
#define VITRINE_WGMMA(type)                                                                            \
  asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                          \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {"                                \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"                                                                                                 \
      "}, %128, %129, add, 1, 1, %130, %131;\n}\n"                                                     \
      : VITRINE_SUMS64(0), VITRINE_SUMS64(64) : "l"(x), "l"(y), "n"(!kXAlongK), "n"(!kYAlongK))
// clang-format on
template <class T, bool kXAlongK, bool kYAlongK>
__device__ void WarpgroupProducts::multiply_accumulate(float (&s)[kSums], uint64_t x, uint64_t y) {
#if VITRINE_HAS_WGMMA
  if constexpr (std::is_same_v<T, bfloat16>) {
    VITRINE_WGMMA("bf16");
  } else {
    VITRINE_WGMMA("f16");
  }
#endif
}
#undef VITRINE_WGMMA
#undef VITRINE_SUMS64
#undef VITRINE_SUMS16
#undef VITRINE_SUMS4
#endif

}  // namespace vitrine::cuda
