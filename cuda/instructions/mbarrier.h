// Barriers in shared memory, where threads wait for each other and for the bytes of copies
// (mbarrier; with bytes from compute capability 9.0 on; PTX ISA, "mbarrier").
#pragma once

#include <cstdint>

#include "cuda/launch.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/mbarrier.h"
#endif

namespace vitrine::cuda {

/// An address of shared memory as instructions expect it: the offset in bytes in the block's
/// window.
__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/// A barrier goes from phase to phase. A phase is complete when `arrivals` threads (see init())
/// have arrived, and all bytes that they expect. The parity of a phase identifies it: 0, 1, 0, ….
struct Mbarrier {
  uint64_t state;

  /// Called by one thread, before any other function. Then call fence_init(), which makes the
  /// barrier visible to the copy engine, and __syncthreads.
  __device__ void init(unsigned arrivals);
  __device__ static void fence_init();
  /// This thread arrives in the current phase. Its earlier accesses happen before all accesses
  /// after wait().
  __device__ void arrive();
  /// The same; the phase also waits for that many bytes.
  __device__ void arrive_expecting(unsigned bytes);
  /// Returns when the phase of that parity is complete. On a new barrier, parity 1 counts as
  /// complete: it is the phase before the first.
#if VITRINE_CUDA_EMULATED
  void wait(unsigned parity, emulator::Place place = {__builtin_FILE(), __builtin_LINE()});
#else
  __device__ void wait(unsigned parity);
#endif
};

#if VITRINE_CUDA_EMULATED
VITRINE_UNTRACED inline void Mbarrier::init(unsigned arrivals) {
  emulator::note_access(&state, sizeof(state), emulator::Access::write, __builtin_return_address(0));
  emulator::init_mbarrier(state, arrivals);
}
VITRINE_UNTRACED inline void Mbarrier::fence_init() { emulator::ThreadBlock::current().fence_mbarriers(); }
VITRINE_UNTRACED inline void Mbarrier::arrive() {
  emulator::note_access(&state, sizeof(state), emulator::Access::atomic_write, __builtin_return_address(0));
  emulator::arrive(state, 0);
}
VITRINE_UNTRACED inline void Mbarrier::arrive_expecting(unsigned bytes) {
  emulator::note_access(&state, sizeof(state), emulator::Access::atomic_write, __builtin_return_address(0));
  emulator::arrive(state, bytes);
}
VITRINE_UNTRACED inline void Mbarrier::wait(unsigned parity, emulator::Place place) {
  emulator::wait(state, parity, place);
  emulator::note_access(&state, sizeof(state), emulator::Access::atomic_write, __builtin_return_address(0));
}
#else
__device__ inline void Mbarrier::init(unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(this)), "r"(arrivals)
               : "memory");
}
__device__ inline void Mbarrier::fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void Mbarrier::arrive() {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(this)) : "memory");
}
__device__ inline void Mbarrier::arrive_expecting(unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(this)),
               "r"(bytes)
               : "memory");
}
__device__ inline void Mbarrier::wait(unsigned parity) {
  // try_wait sleeps for a while before it returns false.
  unsigned complete = 0;
  while (complete == 0)
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(complete)
        : "r"(shared_address(this)), "r"(parity)
        : "memory");
}
#endif

}  // namespace vitrine::cuda
