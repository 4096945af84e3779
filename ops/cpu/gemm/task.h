// Declarations that the parts of the CPU matrix product share: one product for one thread, the
// entry points of the instruction sets, and the packing buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "ops/cpu/gemm/gemm.h"

namespace vitrine::cpu {

/// How a product is computed. The choice depends on the shape of the whole product, never on the
/// shape of a thread's part, because the ways add in different orders.
enum class Way {
  blocked,  // packed blocks
  dots,     // few rows, B stored as [N, K]: dot products
  rows      // one row, B stored as [K, N]: a sum of rows of B
};

constexpr Way way_for(int64_t M, Trans tb) {
  constexpr int64_t kFewRows = 8;
  if (tb == Trans::yes) return M <= kFewRows ? Way::dots : Way::blocked;
  return M == 1 ? Way::rows : Way::blocked;
}

/// The largest part of B that is packed at once: rows (twice as many for pairs of bfloat16) and
/// columns.
struct PackedBlock {
  int64_t depth, columns;
};
constexpr PackedBlock kAmxBlock{384, 768}, kAvx512Block{512, 768}, kAvx2Block{384, 192};

/// One product, or a rectangle of one, that one thread computes. `row` and `column` are the
/// position of this C in the whole product, for Epilogue::finish; C and bias already point there.
template <class T, class TC>
struct GemmTask {
  Way way;
  Trans ta, tb;
  int64_t M, N, K;
  AccumulatorOf<TC> alpha;
  const T* A;
  int64_t lda;
  const T* B;
  int64_t ldb;
  AccumulatorOf<TC> beta;
  TC* C;
  int64_t ldc;
  Epilogue<TC> epilogue;
  int64_t batch = 0, row = 0, column = 0;
  uint64_t call = 0;  // 0, or the call's number: parts of a call share what a thread has packed
  // All of op(B) in packed form, or null, and its size, of which N columns and K rows are used: see
  // PackedMatrix.
  const float* packed = nullptr;
  int64_t packed_columns = 0, packed_rows = 0;

  /// Rows [i, i + rows) and columns [j, j + columns) of this product.
  GemmTask part(int64_t i, int64_t rows, int64_t j, int64_t columns) const {
    GemmTask t = *this;
    t.M = rows;
    t.N = columns;
    t.A += ta == Trans::yes ? i : i * lda;
    t.B += tb == Trans::yes ? j * ldb : j;
    t.C += i * ldc + j;
    if (t.epilogue.bias != nullptr) t.epilogue.bias += j;
    t.row += i;
    t.column += j;
    return t;
  }

  /// Calls the caller's hook for a block of this task's C that is complete.
  void finish(int64_t i, int64_t rows, int64_t j, int64_t columns) const {
    if (epilogue.finish != nullptr)
      epilogue.finish(epilogue.context, batch, row + i, column + j, rows, columns);
  }
};

/// Columns of a product with weights in 8 bits, for one thread: see gemm_int8. The rows of C are
/// `ldc` apart.
template <class T>
struct Int8Task {
  int64_t M, N, K;
  const T* A;
  const uint8_t* levels;
  const float* scale;
  const T* bias;
  T* C;
  int64_t ldc;
};

/// This thread's buffers for packed operands and unfinished sums (core/memory/thread_buffer.h),
/// aligned to a page. The next call for the same slot on the same thread may free them. This is not
/// a template, so that it is not compiled for an instruction set.
enum class Scratch { a, b, c };
float* scratch(Scratch slot, size_t floats);

// One namespace per instruction set. `gemm` computes a task on the calling thread, and `pack` packs
// its B (see PackedMatrix). There are no float64 kernels here.
namespace avx2 {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
template <class T>
void gemm_int8(const Int8Task<T>& task);
template <class T>
void pack(const GemmTask<T, float>& task, float* to);
}  // namespace avx2
namespace avx512 {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
template <class T>
void gemm_int8(const Int8Task<T>& task);
template <class T>
void pack(const GemmTask<T, float>& task, float* to);
}  // namespace avx512
namespace avx512_bf16 {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
template <class T>
void pack(const GemmTask<T, float>& task, float* to);
}  // namespace avx512_bf16
namespace amx {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
template <class T>
void pack(const GemmTask<T, float>& task, float* to);
}  // namespace amx
namespace amx_emulated {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
}
namespace portable {
/// Products of few rows (Way::dots).
template <class T, class TC>
void dots(const GemmTask<T, TC>& task);
template <class T>
void gemm_int8(const Int8Task<T>& task);
}  // namespace portable
namespace blas {
template <class T, class TC>
void gemm(const GemmTask<T, TC>& task);
}

}  // namespace vitrine::cpu

// The code between BEGIN and END is compiled for the given instruction set, regardless of the
// file's flags. Include standard headers before it; otherwise their inline functions are compiled
// for that set too, and the linker may choose those versions.
#if defined(__clang__)
#define VITRINE_PRAGMA(x) _Pragma(#x)
#define VITRINE_TARGET_BEGIN(set) \
  VITRINE_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define VITRINE_TARGET_END VITRINE_PRAGMA(clang attribute pop)
#else
#define VITRINE_PRAGMA(x) _Pragma(#x)
#define VITRINE_TARGET_BEGIN(set) VITRINE_PRAGMA(GCC push_options) VITRINE_PRAGMA(GCC target(set))
#define VITRINE_TARGET_END VITRINE_PRAGMA(GCC pop_options)
#endif
