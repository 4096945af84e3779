// What code compiled with -fsanitize=thread calls before each access: the names are those of
// ThreadSanitizer's runtime, which is not linked. Accesses outside traced kernels are ignored. And
// what -fsanitize=bounds calls where an index leaves its array. A file of its own, so that a
// program without such code, or with the real runtime, does not link it.
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/emulator/block.h"
#include "cuda/emulator/memory.h"

namespace {

using vitrine::emulator::Access;
using vitrine::emulator::ThreadBlock;

inline void saw(const volatile void* address, size_t size, Access access, const void* pc) {
  if (ThreadBlock* const block = ThreadBlock::traced())
    block->note_access(const_cast<const void*>(address), size, access, pc);
}

/// The data of an index check, in the layout of compilers.
struct TypeName {
  // info of an integer: twice the logarithm of its bits, and 1 where it is signed
  uint16_t kind, info;
  char quoted[1];  // 'float [32]'
};
struct ArrayIndex {
  const char* file;
  uint32_t line, column;
  const TypeName *array, *index;
};

/// "takes element 5 of int [4] at scale.cu:12"
std::string describe(const ArrayIndex& of, uintptr_t value) {
  const bool is_signed = (of.index->info & 1) != 0;
  // Bits above the index's own, which clang leaves 0
  const int unused = 64 - std::min(64, 1 << (of.index->info >> 1));
  const std::string file = of.file, array = of.array->quoted;
  return fmt::format(
      "takes element {} of {} at {}:{}",
      is_signed ? std::to_string(static_cast<intptr_t>(value << unused) >> unused) : std::to_string(value),
      array.substr(1, array.size() - 2), file.substr(file.rfind('/') + 1), of.line);
}

}  // namespace

#define VITRINE_PC __builtin_return_address(0)
#define VITRINE_ON_ACCESS(name, size, access) \
  void name(void* address) { saw(address, size, Access::access, VITRINE_PC); }
#define VITRINE_ON_ACCESSES(size)                                     \
  VITRINE_ON_ACCESS(__tsan_read##size, size, read)                    \
  VITRINE_ON_ACCESS(__tsan_write##size, size, write)                  \
  VITRINE_ON_ACCESS(__tsan_unaligned_read##size, size, read)          \
  VITRINE_ON_ACCESS(__tsan_unaligned_write##size, size, write)        \
  VITRINE_ON_ACCESS(__tsan_volatile_read##size, size, read)           \
  VITRINE_ON_ACCESS(__tsan_volatile_write##size, size, write)         \
  VITRINE_ON_ACCESS(__tsan_unaligned_volatile_read##size, size, read) \
  VITRINE_ON_ACCESS(__tsan_unaligned_volatile_write##size, size, write)

// Each atomic operation of a size: noted, then done.
#define VITRINE_FETCH(bits, T, operation)                                        \
  T __tsan_atomic##bits##_fetch_##operation(volatile T* address, T value, int) { \
    saw(address, sizeof(T), Access::atomic_write, VITRINE_PC);                   \
    return __atomic_fetch_##operation(address, value, __ATOMIC_SEQ_CST);         \
  }
#define VITRINE_COMPARE_EXCHANGE(bits, T, kind)                                                              \
  int __tsan_atomic##bits##_compare_exchange_##kind(volatile T* address, T* expected, T value, int, int) {   \
    saw(address, sizeof(T), Access::atomic_write, VITRINE_PC);                                               \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define VITRINE_ATOMICS(bits, T)                                        \
  T __tsan_atomic##bits##_load(const volatile T* address, int) {        \
    saw(address, sizeof(T), Access::atomic_read, VITRINE_PC);           \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                  \
  }                                                                     \
  void __tsan_atomic##bits##_store(volatile T* address, T value, int) { \
    saw(address, sizeof(T), Access::atomic_write, VITRINE_PC);          \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                 \
  }                                                                     \
  T __tsan_atomic##bits##_exchange(volatile T* address, T value, int) { \
    saw(address, sizeof(T), Access::atomic_write, VITRINE_PC);          \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);       \
  }                                                                     \
  VITRINE_FETCH(bits, T, add)                                           \
  VITRINE_FETCH(bits, T, sub)                                           \
  VITRINE_FETCH(bits, T, and)                                           \
  VITRINE_FETCH(bits, T, or)                                            \
  VITRINE_FETCH(bits, T, xor)                                           \
  VITRINE_FETCH(bits, T, nand)                                          \
  VITRINE_COMPARE_EXCHANGE(bits, T, strong)                             \
  VITRINE_COMPARE_EXCHANGE(bits, T, weak)

extern "C" {

/// Runs before main in each file of traced code.
void __tsan_init() { vitrine::emulator::trace_device_memory(); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

VITRINE_ON_ACCESSES(1)
VITRINE_ON_ACCESSES(2)
VITRINE_ON_ACCESSES(4)
VITRINE_ON_ACCESSES(8)
VITRINE_ON_ACCESSES(16)
void __tsan_read_range(void* address, size_t size) { saw(address, size, Access::read, VITRINE_PC); }
void __tsan_write_range(void* address, size_t size) { saw(address, size, Access::write, VITRINE_PC); }
// Of clang from version 15 on.
void* __tsan_memcpy(void* to, const void* from, size_t size) {
  saw(from, size, Access::read, VITRINE_PC);
  saw(to, size, Access::write, VITRINE_PC);
  return std::memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, size_t size) {
  saw(from, size, Access::read, VITRINE_PC);
  saw(to, size, Access::write, VITRINE_PC);
  return std::memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, size_t size) {
  saw(to, size, Access::write, VITRINE_PC);
  return std::memset(to, value, size);
}

VITRINE_ATOMICS(8, uint8_t)
VITRINE_ATOMICS(16, uint16_t)
VITRINE_ATOMICS(32, uint32_t)
VITRINE_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) { std::atomic_thread_fence(std::memory_order_seq_cst); }
void __tsan_atomic_signal_fence(int) {}

/// Weak, as a program may bring UBSan's own. Nothing here may want destroying: a thread that has
/// stopped never goes on.
__attribute__((weak)) void __ubsan_handle_out_of_bounds(ArrayIndex* of, uintptr_t value) {
  ThreadBlock* const block = ThreadBlock::traced();
  if (block == nullptr) {
    fmt::print(stderr, "{}\n", describe(*of, value));
    std::abort();
  }
  block->note_wrong(describe(*of, value));
  block->stop();
}

}  // extern "C"
