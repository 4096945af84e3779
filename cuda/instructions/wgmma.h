// Hopper's tensor cores (wgmma, only on compute capability 9.0: sm_90a; PTX ISA,
// "wgmma.mma_async"): the 128 threads of a warpgroup multiply matrices in shared memory. The
// products are asynchronous.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/instructions/mma.h"
#include "cuda/instructions/tma.h"

// Defined where these instructions can be compiled.
#if VITRINE_CUDA_EMULATED || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VITRINE_HAS_WGMMA 1
#endif

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/warpgroup.h"
#elif VITRINE_HAS_WGMMA
#include "cuda/instructions/wgmma_ptx.h"
#endif

namespace vitrine::cuda {

/// Whether the current device has these instructions, and this build has code with them. If only
/// the code is missing, this prints one message.
bool has_wgmma();

/// setmaxnreg: from here on the warpgroup has kCount registers per thread. All of its threads call
/// this function. take_registers waits until other warpgroups have released enough.
#if VITRINE_CUDA_EMULATED
template <int kCount>
void give_registers(emulator::Place place = {__builtin_FILE(), __builtin_LINE()});
template <int kCount>
void take_registers(emulator::Place place = {__builtin_FILE(), __builtin_LINE()});
#else
template <int kCount>
__device__ void give_registers();
template <int kCount>
__device__ void take_registers();
#endif

/// wgmma's descriptor of a matrix that load_box has put into shared memory (PTX ISA, "Matrix
/// Descriptor Format"). In units of 16 bytes: the address in bits 0 to 13, the offset of the
/// leading dimension in bits 16 to 29, the offset of the stride dimension in bits 32 to 45. Bits 62
/// and 63 are 1, the swizzle of 128 bytes. The offsets ("Strides"): if lines run along k, the next
/// 8 lines begin 1024 bytes further, and the leading offset is not used (1 by convention). If lines
/// run across k, the next 8 lines (8 values of k) begin 1024 bytes further, and the next 64
/// elements of a line begin kBetween bytes further.
template <bool kAlongK, int kBetween = kBoxBytes>
__device__ uint64_t matrix_descriptor(const void* begin) {
  constexpr uint64_t kLeading = kAlongK ? 16 : kBetween, kStride = 8 * 128, kSwizzle128 = 1;
  return (shared_address(begin) >> 4 & 0x3FFF) | kLeading >> 4 << 16 | kStride >> 4 << 32 | kSwizzle128 << 62;
}

/// The products of a warpgroup, which are asynchronous and form groups as in AsyncCopies. The sums
/// are 64 × 2·kSums, where kSums is 32, 64 or 128. Thread t holds in sums[4·j + e] element (16·(t /
/// 32) + t % 32 / 4 + e / 2 · 8, 8·j + t % 4 · 2 + e % 2) ("Register Fragments"). From begin() to
/// finish() the sums belong to the tensor cores. Several arrays of sums can be in use at a time,
/// each with its own groups.
///
///   products.begin(sums);  // as they are
///   products.fence();
///   // any number of times: the first call sets the sums, the others add to them
///   products.multiply_accumulate<T, true, true>(sums, x, y, false);
///   products.commit();      // a group
///   products.wait<1>();     // all groups but the last have finished with x and y
///   products.wait<0>();
///   products.finish(sums);  // all groups of these sums have been waited for
class WarpgroupProducts {
 public:
  template <int kSums>
  __device__ void begin(float (&sums)[kSums]);
  /// Required before the first product, and before the first product after a wait.
  __device__ void fence();
  /// sums [64, 2·kSums] = x [64, 16] · y [16, 2·kSums] (+ sums with `add`); x and y are given by
  /// descriptors. T is bfloat16 or float16.
  template <class T, bool kXAlongK, bool kYAlongK, int kSums>
  __device__ void multiply_accumulate(float (&sums)[kSums], uint64_t x, uint64_t y, bool add = true);
  /// The same with x in registers: each warp holds 16 rows of x. These registers must not change
  /// before the wait for the product.
  template <class T, bool kYAlongK, int kSums>
  __device__ void multiply_accumulate(float (&sums)[kSums], const Fragment& x, uint64_t y, bool add = true);
  __device__ void commit();
  template <int kOpen>
  __device__ void wait();
  template <int kSums>
  __device__ void finish(float (&sums)[kSums]);
  /// The same for x in registers; without it the compiler could reuse the registers while the
  /// product still reads them.
  template <int kCount>
  __device__ void finish(Fragment (&x)[kCount]);

#if VITRINE_CUDA_EMULATED
 private:
  emulator::WarpgroupProducts twin_;
#endif
};

#if VITRINE_CUDA_EMULATED
template <int kCount>
VITRINE_UNTRACED void give_registers(emulator::Place place) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  emulator::give_registers(kCount, place);
}
template <int kCount>
VITRINE_UNTRACED void take_registers(emulator::Place place) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  emulator::take_registers(kCount, place);
}

template <class T>
VITRINE_UNTRACED float value_of_bits(uint16_t bits) {
  T value;
  value.bits = bits;
  return static_cast<float>(value);
}

template <int kSums>
VITRINE_UNTRACED void WarpgroupProducts::begin(float (&sums)[kSums]) {
  twin_.begin(sums, kSums);
}
VITRINE_UNTRACED inline void WarpgroupProducts::fence() { twin_.fence(); }
template <class T, bool kXAlongK, bool kYAlongK, int kSums>
VITRINE_UNTRACED void WarpgroupProducts::multiply_accumulate(float (&sums)[kSums], uint64_t x, uint64_t y,
                                                             bool add) {
  twin_.add(
      sums,
      {.x = x, .y = y, .x_along_k = kXAlongK, .y_along_k = kYAlongK, .add = add, .value = value_of_bits<T>});
}
template <class T, bool kYAlongK, int kSums>
VITRINE_UNTRACED void WarpgroupProducts::multiply_accumulate(float (&sums)[kSums], const Fragment& x,
                                                             uint64_t y, bool add) {
  emulator::WarpgroupProduct product{
      .y = y, .x_in_registers = true, .y_along_k = kYAlongK, .add = add, .value = value_of_bits<T>};
  std::copy_n(x.quarter, 4, product.fragment);
  twin_.add(sums, product);
}
VITRINE_UNTRACED inline void WarpgroupProducts::commit() { twin_.commit(); }
template <int kOpen>
VITRINE_UNTRACED void WarpgroupProducts::wait() {
  twin_.wait(kOpen, __builtin_return_address(0));
}
template <int kSums>
VITRINE_UNTRACED void WarpgroupProducts::finish(float (&sums)[kSums]) {
  twin_.finish(sums);
}
template <int kCount>
VITRINE_UNTRACED void WarpgroupProducts::finish(Fragment (&)[kCount]) {}  // the emulator has a copy
#else
template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

/// The compiler does not know that the hardware writes the sums; it must not move reads or writes
/// of the sums across this point.
template <int kSums>
__device__ void pin(float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

template <int kSums>
__device__ void WarpgroupProducts::begin(float (&sums)[kSums]) {
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
template <int kSums>
__device__ void WarpgroupProducts::finish(float (&sums)[kSums]) {
  pin(sums);
}
template <int kCount>
__device__ void WarpgroupProducts::finish(Fragment (&x)[kCount]) {
#pragma unroll
  for (Fragment& of : x)
#pragma unroll
    for (uint32_t& word : of.quarter) asm volatile("" : "+r"(word)::"memory");
}

template <class T, bool kXAlongK, bool kYAlongK, int kSums>
__device__ void WarpgroupProducts::multiply_accumulate(float (&sums)[kSums], uint64_t x, uint64_t y,
                                                       bool add) {
#if VITRINE_HAS_WGMMA
  wgmma<T, kXAlongK, kYAlongK>(sums, x, y, add);
#endif
}
template <class T, bool kYAlongK, int kSums>
__device__ void WarpgroupProducts::multiply_accumulate(float (&sums)[kSums], const Fragment& x, uint64_t y,
                                                       bool add) {
#if VITRINE_HAS_WGMMA
  wgmma<T, kYAlongK>(sums, x, y, add);
#endif
}
#endif

}  // namespace vitrine::cuda
