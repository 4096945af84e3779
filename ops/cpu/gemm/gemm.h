// The matrix product on the CPU, on raw row-major memory. ops/cpu/gemm/plain.h has the readable
// definition.
//
// float32, bfloat16 and float16 run on packed kernels in this folder (AVX-512, AVX2; for bfloat16
// also AMX); float64 and other CPUs use OpenBLAS. Sums are kept in float32 (float64 for double).
// The order of a sum depends only on the shape, so the result has the same bits on any number of
// threads. Nothing is skipped: 0 times infinity is NaN. In steady use nothing is allocated: each
// thread keeps its packing buffers.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/simd/isa.h"

namespace vitrine::cpu {

enum class Trans : bool { no, yes };

/// Work on a block of C while it is still in cache. `bias` [N] is added to every row. Then `finish`
/// is called once for each block C[row : row + rows, column : column + columns] of product number
/// `batch`, on the thread that computed it. Blocks are disjoint, cover C, and depend on the shape
/// and the number of threads. `finish` may read and write the block and data that belongs to it (an
/// activation's output, for example). It must not throw and must not multiply matrices.
template <class TC>
struct Epilogue {
  const TC* bias = nullptr;
  void (*finish)(void* context, int64_t batch, int64_t row, int64_t column, int64_t rows,
                 int64_t columns) = nullptr;
  void* context = nullptr;
};

/// C = alpha · op(A) op(B) + beta · C + bias, with op(A) [M, K], op(B) [K, N], C [M, N]. op
/// transposes if `yes`, so A is stored as [M, K] or [K, M] with rows `lda` apart. A distance less
/// than the length of a row is an error, unless the matrix has one row. T → TC may be float →
/// float, double → double, bfloat16 → float or bfloat16, float16 → float or float16. With beta 0, C
/// is not read; with alpha 0, A and B are not read; K = 0 is an empty sum. C must not overlap A or
/// B.
template <class T, class TC>
void gemm(Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, AccumulatorOf<TC> alpha, const T* A,
          int64_t lda, const T* B, int64_t ldb, AccumulatorOf<TC> beta, TC* C, int64_t ldc,
          const Epilogue<TC>* epilogue = nullptr);

/// The products of a batch are numbered i = outer · inner_count + inner. Product i uses A + outer ·
/// a.outer + inner · a.inner, and likewise B and C. Stride 0 in A or B broadcasts; the products of
/// C must not overlap.
struct BatchStride {
  int64_t outer = 0, inner = 0;
};
struct MatrixBatch {
  int64_t outer_count = 1, inner_count = 1;
  BatchStride a, b, c;
};

/// One product per entry of `batch`. The threads share all products.
template <class T, class TC>
void gemm_batched(const MatrixBatch& batch, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K,
                  AccumulatorOf<TC> alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
                  AccumulatorOf<TC> beta, TC* C, int64_t ldc, const Epilogue<TC>* epilogue = nullptr);

/// The right operand of many products, op(B) [K, N]. Where the kernels of the instruction set in
/// use read a packed B, it is packed once, into memory of the caller. Otherwise (float64, portable
/// code) this only refers to B, which must outlive it in any case.
template <class T>
struct PackedMatrix {
  Trans trans = Trans::no;
  int64_t N = 0, K = 0;
  const T* B = nullptr;
  int64_t ldb = 0;
  const float* units = nullptr;
};
/// The memory that packing takes, in floats.
template <class T>
size_t packed_size(int64_t N, int64_t K);
/// Products use the first rows of a packed op(B) in steps of so many: a step is read as a whole.
template <class T>
int64_t packed_step();
template <class T>
PackedMatrix<T> pack(Trans tb, int64_t N, int64_t K, const T* B, int64_t ldb, float* to);

/// C = alpha · op(A) · op(B)[0 : K, 0 : N] + beta · C on the calling thread, with the first rows
/// and columns of op(B). K is a multiple of packed_step() or all of B's rows. Sums are added as
/// `gemm` adds them for many rows.
template <class T, class TC>
void multiply(Trans ta, int64_t M, int64_t N, int64_t K, AccumulatorOf<TC> alpha, const T* A, int64_t lda,
              const PackedMatrix<T>& B, AccumulatorOf<TC> beta, TC* C, int64_t ldc);

/// C[i, j] = scale[j] · Σ_k A[i, k] · (levels[j, k] − 128) + bias[j]: a product with weights in 8
/// bits (ops/quantized.h). A [M, K], levels [N, K] and C [M, N] are contiguous; bias may be null.
/// Sums are float32, and their order depends only on K. T is float, bfloat16 or float16.
template <class T>
void gemm_int8(int64_t M, int64_t N, int64_t K, const T* A, const uint8_t* levels, const float* scale,
               const T* bias, T* C);
/// The same with the kernels of one instruction set, for tests.
template <class T>
void gemm_int8_on(Isa isa, int64_t M, int64_t N, int64_t K, const T* A, const uint8_t* levels,
                  const float* scale, const T* bias, T* C);

/// gemm_batched with the kernels of one instruction set, which the CPU must support. For tests and
/// benchmarks.
template <class T, class TC>
void gemm_batched_on(Isa isa, const MatrixBatch& batch, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K,
                     AccumulatorOf<TC> alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
                     AccumulatorOf<TC> beta, TC* C, int64_t ldc, const Epilogue<TC>* epilogue = nullptr);

}  // namespace vitrine::cpu
